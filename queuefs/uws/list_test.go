package uws_test

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"testing"
	"time"

	"cutie/wellknown"
)

// A list of a long queue comes in parts: each costs no more than so many jobs.
func TestLongListsComeInParts(t *testing.T) {
	w := newWorld(t, "")
	w.close()
	w.maxListed = 4
	w.open(nil)
	var jobs []string
	for i := range 10 {
		w.sleep(time.Second)
		jobs = append([]string{idOf(w.create(fmt.Sprint("n=", i)))}, jobs...)
	}
	for _, query := range []string{"", "?PHASE=PENDING", "?LAST=4", "?AFTER=2000"} {
		where, got, parts := w.srv.URL+"/uws/q/async"+query, []string(nil), 0
		for ; where != ""; parts++ {
			resp, err := http.Get(where)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			got = append(got, ids(string(text))...)
			where = ""
			if next := wellknown.Links(resp.Header, "next"); len(next) > 0 {
				where = next[0]
			}
		}
		if !reflect.DeepEqual(got, jobs) || parts != 3 {
			t.Errorf("%s: got %v in %d parts, want %v", query, got, parts, jobs)
		}
	}
	w.want(400, "GET", "async?BEFORE=x", "")
}

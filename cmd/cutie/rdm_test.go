package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/publisher/soif"
)

// Objects are sent ten thousand at a time, until a message is refused.
func TestSendManyDescriptions(t *testing.T) {
	t.Parallel()
	var messages []int
	refuse := 0 // the number of the message to refuse
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, n := soif.NewReader(r.Body), -1
		for ; ; n++ {
			if _, err := in.Read(); err == io.EOF {
				break
			} else if err != nil {
				t.Error(err)
				break
			}
		}
		messages = append(messages, n)
		head := soif.Object{Type: "RDMHEADER"}
		head.Add("RDM-Version", "1.0")
		head.Add("RDM-Type", "status-response")
		head.Add("RDM-Response-Interpret", fmt.Sprintf("%d accepted, 0 rejected", n))
		w.Header().Set("Content-Type", "application/x-rdm")
		if len(messages) == refuse {
			head.Add("RDM-Error-Message", "no space left")
			w.WriteHeader(http.StatusInsufficientStorage)
		}
		w.Write(head.Append(nil))
	}))
	defer server.Close()
	name := filepath.Join(t.TempDir(), "many.soif")
	for _, tt := range []struct {
		objects, refuse int
		want            []int
		fails           string
	}{
		{0, 0, []int{0}, ""},
		{10_000, 0, []int{10_000}, ""},
		{20_001, 0, []int{10_000, 10_000, 1}, ""},
		{20_001, 2, []int{10_000, 10_000}, "no space left; 10000 objects were accepted before"},
	} {
		messages, refuse = nil, tt.refuse
		must(t, os.WriteFile(name, []byte(strings.Repeat("@X { -\nA{1}:\t1\n}\n", tt.objects)), 0o600))
		_, err := cutie(t, "rdm", "send", server.URL, name)
		if !slices.Equal(messages, tt.want) || (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%d objects: got messages of %v, %v, want %v, %s", tt.objects, messages, err, tt.want, tt.fails)
		}
	}
}

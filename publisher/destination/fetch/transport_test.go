package fetch_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/destination/fetch"
	"cutie/queuefs/outbound"
)

var loopback, _ = outbound.NewAddresses([]string{"127.0.0.1"})

// A Source that an operator named may be at a private address. What it names itself, in
// documents and redirects, may not, unless the operator allows it; also by other spellings.
func TestASourceNamesNoPrivateAddresses(t *testing.T) {
	var asked atomic.Int32
	inner := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.Write([]byte("secret")) })
	port := inner[strings.LastIndexByte(inner, ':'):]
	own := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, inner, http.StatusFound)
		}
	})
	for _, proxy := range []string{"", "http://127.0.0.1:9"} {
		t.Setenv("HTTP_PROXY", proxy) // not for loopback
		c := fetch.New(fetch.Options{Origin: own, Pause: time.Hour})
		if _, err := text(t.Context(), c, own+"/a"); err != nil {
			t.Fatal(err)
		}
		for _, uri := range []string{inner, own + "/away", "http://localhost" + port, "http://[::ffff:127.0.0.1]" + port} {
			got, err := text(t.Context(), c, uri)
			if fetch.Refused(err) == nil {
				t.Errorf("%s: got %q, %v, want it refused", uri, got, err)
			}
			resp, err := c.HTTP().Get(uri)
			if fetch.Refused(err) == nil {
				t.Errorf("%s: got %v, %v, want it refused", uri, resp, err)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the private server was asked %d times", n)
	}
	c := fetch.New(fetch.Options{Origin: own, Addresses: loopback})
	if got, err := text(t.Context(), c, own+"/away"); got != "secret" {
		t.Errorf("an allowed address: got %q, %v", got, err)
	}
}

package reach

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestTokenGoesToItsHostOnly(t *testing.T) {
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, "other "+r.Header.Get("Authorization"))
	}))
	defer other.Close()
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, "daemon "+r.Header.Get("Authorization"))
		if r.URL.Path == "/away" {
			http.Redirect(w, r, other.URL, http.StatusFound)
		}
	}))
	defer daemon.Close()
	t.Setenv(tokenVariable, "secret")
	c := &http.Client{Transport: withToken(daemon.URL+"/base/", http.DefaultTransport)}
	for _, url := range []string{daemon.URL + "/base/state", daemon.URL + "/away", other.URL} {
		resp, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	want := []string{"daemon Bearer secret", "daemon Bearer secret", "other ", "other "}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("request %d: got %q, want %q", i, got[i], want[i])
		}
	}
}

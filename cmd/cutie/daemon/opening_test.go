package daemon

import (
	"io"
	"net"
	"net/http"
	"testing"
)

// While a home is opened requests are answered with 503, and the daemon goes on with the
// same listener after it, as often as need be.
func TestAnOpeningAnswersInPlaceOfTheDaemon(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	url := "http://" + ln.Addr().String()
	get := func(path string) (status int, after, text string) {
		t.Helper()
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Retry-After"), string(body)
	}
	o := &Opening{Node: &NodeOptions{}}
	for range 2 {
		o.Answer(ln)
		if status, after, _ := get("/state"); status != http.StatusServiceUnavailable || after == "" {
			t.Errorf("while it opens: %d, Retry-After %q", status, after)
		}
		if status, _, text := get("/livez"); status != http.StatusOK || text != "ok\n" {
			t.Errorf("its life: %d %q", status, text)
		}
		if err := o.Stop(); err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "daemon") })}
		done := make(chan error, 1)
		go func() { done <- server.Serve(door{ln}) }()
		if status, _, text := get("/state"); status != http.StatusOK || text != "daemon" {
			t.Errorf("then: %d %q", status, text)
		}
		server.Close()
		if err := <-done; err != http.ErrServerClosed {
			t.Error(err)
		}
		if err := (door{ln}).open(); err != nil {
			t.Fatal(err)
		}
	}
	o.Answer(ln) // the home is open at once
	if err := o.Stop(); err != nil {
		t.Error(err)
	}
	var none *Opening
	none.Answer(ln)
	none.End()
	if err := none.Stop(); err != nil {
		t.Error(err)
	}
}

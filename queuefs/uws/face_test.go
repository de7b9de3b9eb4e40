package uws_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"cutie/queuefs/uws"
)

func TestServiceNamesItsSecurityMethods(t *testing.T) {
	w := newWorld(t, "")
	for _, c := range []struct {
		uws.Security
		interfaces, methods int
	}{
		{uws.Security{Anonymous: true}, 1, 0},
		{uws.Security{Users: true}, 1, 2},
		{uws.Security{Anonymous: true, Users: true}, 2, 2},
	} {
		w.security = c.Security
		w.as = uws.Caller{Own: true}
		_, list, _ := strings.Cut(w.get("capabilities"), "UWS#rest-1.1")
		if i, m := strings.Count(list, "<interface"), strings.Count(list, "<securityMethod"); i != c.interfaces || m != c.methods {
			t.Errorf("%+v: got %d interfaces and %d methods, want %d and %d", c.Security, i, m, c.interfaces, c.methods)
		}
	}
}

// A stranger cannot tell by the description of a service whether there is the queue.
func TestStrangersDoNotLearnWhichQueuesThereAre(t *testing.T) {
	w := newWorld(t, "")
	w.security = uws.Security{Users: true}
	ask := func(queue, part string) (int, string) {
		t.Helper()
		r, err := http.Get(w.srv.URL + "/uws/" + queue + "/" + part)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, strings.ReplaceAll(string(text), "/uws/"+queue+"/", "/uws/QUEUE/")
	}
	for _, part := range []string{"capabilities", "availability"} {
		w.as = uws.Caller{Own: true, Stranger: true}
		there, text := ask("q", part)
		absent, other := ask("absent", part)
		if there != 200 || absent != 200 || text != other {
			t.Errorf("%s: got %d %s for a queue and %d %s for none", part, there, text, absent, other)
		}
		if status, _ := ask("cutie-x", part); status != 404 {
			t.Errorf("%s of no possible name: got %d, want 404", part, status)
		}
		w.as = uws.Caller{Own: true}
		if status, _ := ask("absent", part); status != 404 {
			t.Errorf("%s for a caller with a right: got %d, want 404", part, status)
		}
	}
}

package uws_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/uws"
)

func TestVersion10HasNothingOf11(t *testing.T) {
	w := newWorld(t, "uwsVersion: 1.0\n")
	job := w.create("RUNID=r&a=1")
	w.want(303, "POST", job+"/parameters", "NEW=1")
	w.want(303, "POST", job+"/phase", "PHASE=RUN")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed}, "result")
	texts := []string{w.get(job), w.get("async"), w.get(job + "/results"), w.get(job + "/parameters")}
	for _, text := range texts {
		for _, word := range []string{"creationTime", "mime-type", "size=", `version="1.1"`} {
			if strings.Contains(text, word) {
				t.Errorf("got %s in %s", word, text)
			}
		}
	}
	valid(t, "1.0", texts...)
}

func TestClientsGetXMLWhateverTheyAccept(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=<b>")
	for accept, html := range map[string]bool{
		"": false, "text/plain": false, "application/json": false, "text/html, image/gif, image/jpeg, */*; q=0.2": false,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
	} {
		for _, where := range []string{job, "async"} {
			_, text := w.want(200, "GET", where, "", "Accept", accept)
			if got := strings.HasPrefix(text, "<!DOCTYPE html>"); got != html {
				t.Errorf("%s: got HTML %v, want %v", accept, got, html)
			}
		}
	}
	if text := w.get(job + "?format=html"); !strings.Contains(text, `value="&lt;b&gt;"`) || !strings.Contains(text, `name="PHASE" value="RUN"`) {
		t.Errorf("got page %s", text)
	}
}

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

func TestServiceDescribesItself(t *testing.T) {
	w := newWorld(t, "")
	if text, want := w.get("capabilities"), w.srv.URL+"/uws/q/async</accessURL>"; !strings.Contains(text, want) || !strings.Contains(text, "ivo://ivoa.net/std/UWS#rest-1.1") {
		t.Errorf("got %s", text)
	}
	if text := w.get("availability"); !strings.Contains(text, "<vosi:available>true<") {
		t.Errorf("got %s", text)
	}
	if _, err := w.svc.SetQueue(context.Background(), "q", func(i *queuefs.QueueInfo) error { i.Closed = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if text := w.get("availability"); !strings.Contains(text, "<vosi:available>false<") {
		t.Errorf("got %s", text)
	}
	w.want(403, "POST", "async", "a=1")
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

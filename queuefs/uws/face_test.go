package uws_test

import (
	"context"
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

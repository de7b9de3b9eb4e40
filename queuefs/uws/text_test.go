package uws_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestCharactersThatXMLCannotCarryAreRefusedByName(t *testing.T) {
	w := newWorld(t, "")
	job := w.create("a=1&RUNID=r")
	for char, name := range map[string]string{"\x00": "U+0000", "\x01": "U+0001", "\x0b": "U+000B", "\x1b": "U+001B", "\ufffe": "U+FFFE", "\uffff": "U+FFFF", "\xff": "not UTF-8"} {
		refused := func(why, method, where, body string, header ...string) {
			t.Helper()
			if _, text := w.want(400, method, where, body, header...); !strings.Contains(text, name) {
				t.Errorf("%s: got %q, want %s named", why, text, name)
			}
		}
		value := url.QueryEscape("x" + char)
		for _, field := range []string{"a=" + value, value + "=1", "RUNID=" + value, "a=1&runid=" + value + "&PHASE=RUN"} {
			refused("form", "POST", "async", field)
			refused("query", "POST", "async?"+field, "")
			refused("query of sync", "GET", "sync?"+field, "")
			refused("form of sync", "POST", "sync", field)
			refused("change", "POST", job, field)
			refused("query of a change", "POST", job+"?"+field, "")
		}
		for _, name := range []string{"a", "RUNID"} {
			body, mediaType := parts(t, nil, name, "x"+char)
			refused("multipart", "POST", "async", body, "Content-Type", mediaType)
			refused("multipart of a change", "POST", job, body, "Content-Type", mediaType)
		}
		refused("lines of a page", "POST", "async?uws-lines=l", "l="+url.QueryEscape("a=x"+char))
		refused("parameters", "POST", job+"/parameters", "a="+value)
		refused("parameter", "PUT", job+"/parameters/a", "x"+char)
		refused("name of a parameter", "PUT", job+"/parameters/"+url.PathEscape("x"+char), "1")
	}
	if got := ids(w.get("async")); len(got) != 1 {
		t.Errorf("got %v, want the first job", got)
	}
	text := w.get(job)
	if !strings.Contains(text, `<uws:parameter id="a">1</uws:parameter>`) || element(text, "runId") != "r" {
		t.Errorf("got %s, want what it was made with", text)
	}
}

func TestTextWithBreaksAndAnyScriptIsKept(t *testing.T) {
	w := newWorld(t, "")
	want := "a\tb\nc\rd \u0085 é 漢 \U0001F30D"
	job := w.create("a=" + url.QueryEscape(want))
	if got := w.get(job + "/parameters/a"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	valid(t, "1.1", w.get(job))
}

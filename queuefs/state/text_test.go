package state_test

import (
	"reflect"
	"strings"
	"testing"

	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

// hostile are texts that some form could lose or change.
var hostile = []string{
	"one\ntwo\r\nthree\rfour", "\n", " ", "\t", "\n\n leading and trailing \t\n", "100% %0A %25", "<a href='x'>&amp;\"</a>",
	"]]>", "<![CDATA[x]]>", "\\", `\u0041 \n`, `"""`, `'''`, "\u0085\u2028\u00a0\u200b\ufeff", "naïve 🦊", "\x7f",
	"000001", "1e5", "true", "(:unkn)", "-", "#", ": x", "http://example.org/?a=1&b=2", "//",
}

func TestTextComesBackExactlyFromAllForms(t *testing.T) {
	for _, text := range hostile {
		j := plainJob()
		j.Filename, j.Sidecar, j.Submitter, j.Message, j.HeldFor = text, text, text, text, text
		for i, items := range [][]string{nil, {text}, {text, text}, {"", text, ""}, hostile} {
			documents := []state.Document{
				state.OfJob(base, &j),
				state.OfBatch(base, &state.Batch{ID: text, Queue: "q", Status: state.BatchFailed, Created: day, Errors: items}),
				state.OfException(state.Exception{Status: 404, Detail: text}),
				state.OfHelp(state.Help{Summary: text, Text: text, Methods: items}),
			}
			for _, d := range documents {
				for _, f := range forms {
					got, err := statetest.Read(f, d.Class, f.Append(nil, &d))
					if err != nil {
						t.Errorf("%q %d in %s: %v", text, i, f, err)
					} else if want := said(d); !reflect.DeepEqual(got, want) {
						t.Errorf("%q %d in %s: got %+v, want %+v", text, i, f, got, want)
					}
				}
			}
		}
	}
}

func TestReferencesNeedNotBeURLs(t *testing.T) {
	for _, ref := range append([]string{"a b", "http://h/<x>", "mailto:a@example.org", "javascript:alert(1)", "urn:x:é", "x:"}, hostile...) {
		s := service()
		s.SupportURI = ref
		d := state.OfService(&s)
		for _, f := range forms {
			got, err := statetest.Read(f, d.Class, f.Append(nil, &d))
			if err != nil || got.Service().SupportURI != ref {
				t.Errorf("%q in %s: got %q, %v", ref, f, got.Service().SupportURI, err)
			}
		}
	}
}

func TestTextThatXMLCannotCarryIsTheSameInAllForms(t *testing.T) {
	for text, want := range map[string]string{
		"a\xffb":              "a\ufffdb",
		"\x00":                "\ufffd",
		"\x1b[0m\u0007":       "\ufffd[0m\ufffd",
		"\ufffe|\uffff":       "\ufffd|\ufffd",
		"\xed\xa0\x80":        "\ufffd\ufffd\ufffd",
		"\ufffd \U0010ffff\n": "\ufffd \U0010ffff\n",
	} {
		j := plainJob()
		j.Filename = text
		d := state.OfJob(base, &j)
		for _, f := range forms {
			got, err := statetest.Read(f, state.JobClass, f.Append(nil, &d))
			if err != nil {
				t.Fatal(err)
			}
			if name := got.Property("filename").Text; name != want {
				t.Errorf("%q in %s: got %q, want %q", text, f, name, want)
			}
		}
	}
}

func TestNoFormTellsTheKeyOfALease(t *testing.T) {
	j := fullJob()
	d := state.OfJob(base, &j)
	for _, f := range forms {
		if text := string(f.Append(nil, &d)); strings.Contains(text, j.Lease.Key) || !strings.Contains(text, "leaseExpires") {
			t.Errorf("%s: got %s", f, text)
		}
	}
}

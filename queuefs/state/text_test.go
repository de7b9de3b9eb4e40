package state_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
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
				for _, f := range statetest.Readable(forms) {
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
		for _, f := range statetest.Readable(forms) {
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
		for _, f := range statetest.Readable(forms) {
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

// The type and the value of a digest stand together in ANVL, and are read so.
func TestDigestsStandTogether(t *testing.T) {
	j := queuefs.Job{ID: 1, Queue: "q", Status: queuefs.Pending, Digests: []digest.Value{digest.Sum(digest.SHA256, nil), digest.Sum(digest.MD5, nil)}}
	d := state.OfJob(base, &j)
	text := string(state.ANVL.Append(nil, &d))
	want := "\ndigestType: SHA-256\ndigestValue: " + j.Digests[0].Hex + "\ndigestType: MD5\ndigestValue: " + j.Digests[1].Hex + "\n"
	if !strings.Contains(text, want) {
		t.Errorf("got %s", text)
	}
	back, err := state.ANVL.Decode(state.JobClass, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := back.Job()
	if err != nil || !slices.Equal(got.Digests, j.Digests) {
		t.Errorf("got %v, %v", got.Digests, err)
	}
}

// Properties of Cutie 0.3, 3 that MUST be there are there even when nothing is set.
func TestMustPropertiesAreThere(t *testing.T) {
	service := state.OfService(&state.Service{})
	for _, name := range []string{"name", "identifier", "serviceVersion", "queueStates", "serviceScheme", "baseURI", "supportURI"} {
		if service.Property(name) == nil {
			t.Errorf("service: no %s", name)
		}
	}
	dated := state.OfService(&state.Service{ServiceInfo: queuefs.ServiceInfo{Modified: time.Unix(1, 0)}})
	if dated.Text("created") == "" || dated.Text("lastModified") == "" {
		t.Errorf("got %+v", dated)
	}
	queue := state.OfQueue(base, &state.Queue{QueueState: queuefs.QueueState{Info: queuefs.QueueInfo{ID: "q", CullingSize: -1, CullingAge: -1}}})
	for _, name := range []string{"name", "identifier", "cutieState", "numPendingJobs", "numCompletedJobs", "numDeletedJobs", "jobStates",
		"cullingSizeThreshold", "cullingAgeThreshold", "verifyOnRead", "verifyOnWrite"} {
		if queue.Property(name) == nil {
			t.Errorf("queue: no %s", name)
		}
	}
}

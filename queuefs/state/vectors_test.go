package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

// merritt returns the directory of what UC3's own formatters wrote.
func merritt(t *testing.T) string {
	shared := os.Getenv("CUTIE_SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	dir := filepath.Join(shared, "vectors", "state", "merritt-formatters")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("shared vectors not found; set CUTIE_SHARED")
	}
	return dir
}

// What Merritt's formatters wrote reads as what they were given, but for what
// they lost themselves. Their JSON has another shape than ours.
func TestDocumentsOfMerrittAreRead(t *testing.T) {
	dir := merritt(t)
	queue := []string{
		"name: Queue01", "identifier: ingest", "description: UC3 primary <ingest> & queue",
		"cutieState: http://cutie.cdlib.org/state", "numPendingJobs: 1", "numCompletedJobs: 0",
		"jobState: http://cutie.cdlib.org/state/ingest/000001", "verifyOnRead: true",
	}
	job := []string{
		"identifier: 000001", "queueState: http://cutie.cdlib.org/state/ingest", "submitter: curl/7.88.1", "size: 12",
		"sidecar: name=value; note=two%0Alines", "submitted: 2010-04-20T16:00:00.000000Z", "status: pending",
	}
	number := slices.Clone(job)
	number[0] = "identifier: 1" // a number to their RDF library
	for _, tt := range []struct {
		file string
		form state.Form
		c    *state.Class
		want []string
	}{
		{"queue.xml", state.XML, state.QueueClass, queue},
		{"queue.html", state.XHTML, state.QueueClass, queue},
		{"queue.ttl", state.Turtle, state.QueueClass, queue},
		{"queue.txt", state.ANVL, state.QueueClass, queue},
		{"job.xml", state.XML, state.JobClass, job},
		{"job.html", state.XHTML, state.JobClass, job},
		{"job.ttl", state.Turtle, state.JobClass, number},
	} {
		data, err := os.ReadFile(filepath.Join(dir, tt.file))
		if err != nil {
			t.Fatal(err)
		}
		d, err := statetest.Read(tt.form, tt.c, data)
		if errors.Is(err, statetest.ErrNoReader) {
			t.Skip(err)
		}
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		got := strings.Split(strings.TrimSpace(string(state.ANVL.Append(nil, &d))), "\n")
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.file, got, tt.want)
		}
	}
}

// The names that UC3's own formatters wrote are ours, apart from the element
// "empty", which only shows what became of empty lists.
func TestElementNamesAreThoseOfTheSpecification(t *testing.T) {
	dir := merritt(t)
	element := regexp.MustCompile(`<(\w+):(\w+)[ >]`)
	for name, c := range map[string]*state.Class{"service": state.ServiceClass, "queue": state.QueueClass, "job": state.JobClass} {
		data, err := os.ReadFile(filepath.Join(dir, name+".xml"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), "xmlns:"+c.Prefix+"='"+c.Namespace+"'") {
			t.Errorf("%s: namespace %s is not theirs", name, c.Namespace)
		}
		for i, m := range element.FindAllStringSubmatch(string(data), -1) {
			known := m[2] == "empty" || slices.ContainsFunc(c.Terms, func(t state.Term) bool {
				return t.Name == m[2] || t.Item == m[2]
			})
			if i == 0 {
				known = m[2] == c.Root
			}
			if m[1] != c.Prefix || !known {
				t.Errorf("%s: %s:%s is unknown", name, m[1], m[2])
			}
		}
	}
}

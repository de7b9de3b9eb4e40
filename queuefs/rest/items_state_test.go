package rest_test

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

// An item is a place where the specification (Cutie 0.3) contradicts itself or
// says too little, with the resolution that holds here; those that nobody sees
// from outside have their tests where they are done.
type item struct {
	number int
	holds  string
	test   func(t *testing.T)
}

func runItems(t *testing.T, items []item) {
	for _, i := range items {
		t.Run(fmt.Sprintf("%d %s", i.number, i.holds), i.test)
	}
}

// decoded returns the state in the answer.
func (a answer) decoded(t testing.TB, c *state.Class) state.Document {
	t.Helper()
	form, err := state.FormOf(a.Header.Get("Content-Type"))
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", a.Request.Method, a.Request.URL, err, a.body)
	}
	d, err := statetest.Read(form, c, []byte(a.body))
	if errors.Is(err, statetest.ErrNoReader) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", a.Request.Method, a.Request.URL, err, a.body)
	}
	return d
}

func (a answer) job(t testing.TB) queuefs.Job {
	t.Helper()
	d := a.decoded(t, state.JobClass)
	j, err := d.Job()
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (a answer) queue(t testing.TB) state.Queue {
	t.Helper()
	d := a.decoded(t, state.QueueClass)
	q, err := d.Queue()
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// says returns the properties of the given names, "" for those not there.
func says(d state.Document, names ...string) []string {
	var all []string
	for _, n := range names {
		text := ""
		if p := d.Property(n); p != nil {
			text = p.Text + strings.Join(p.Items, " ")
		}
		all = append(all, text)
	}
	return all
}

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %#v, want %#v", what, got, want)
	}
}

// TestItemsOfQueues checks what is told of the service and of queues.
func TestItemsOfQueues(t *testing.T) {
	runItems(t, []item{
		{4, "a queue goes by its identifier, cleaned or encoded, and by its name", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			const encoded = "uc3%3Acutie%2F01%2Fqueue%2F01"
			a := s.do("PUT", "/state/"+encoded+"?name=Queue%2001", "").want(t, 201)
			a.header(t, "Location", s.url+"/state/uc3+cutie=01=queue=01")
			for _, path := range []string{"uc3+cutie=01=queue=01", encoded, "Queue%2001"} {
				d := s.do("GET", "/state/"+path+"?t=json", "").want(t, 200).decoded(t, state.QueueClass)
				want(t, path, says(d, "identifier", "name"), []string{"uc3:cutie/01/queue/01", "Queue 01"})
				s.do("POST", "/content/"+path, "x").want(t, 201)
			}
			s.do("GET", "/state/jobs", "").want(t, 200) // plain ones map to themselves
			s.do("POST", "/state?identifier=uc3%2Bcutie%3D01%3Dqueue%3D01", "").want(t, 409)
		}},
		{5, "reserved names are refused", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, name := range []string{"cutie", "Cutie-x", "cut", "merrit", "Merritt", "mrt-1"} {
				a := s.do("PUT", "/state/"+name, "").want(t, 400)
				if got := a.exception(t); !strings.Contains(got, "reserved prefix") {
					t.Errorf("%s: got %q", name, got)
				}
			}
		}},
		{6, "the service tells its version, dates and description", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			d := s.do("GET", "/state?t=anvl", "").want(t, 200).decoded(t, state.ServiceClass)
			got := says(d, "name", "identifier", "serviceScheme", "serviceVersion")
			parts := strings.Split(queuefs.Scheme, "/")
			want(t, "service", got, []string{"test", "uc3:test", queuefs.Scheme, parts[len(parts)-1]})
			before := d.Service()
			if before.Created.IsZero() || before.Modified.Before(before.Created) {
				t.Errorf("created %v, modified %v", before.Created, before.Modified)
			}
			s.do("PUT", "/state/new", "").want(t, 201)
			after := s.do("GET", "/state?t=anvl", "").decoded(t, state.ServiceClass)
			if m := after.Service().Modified; !m.After(before.Modified) {
				t.Errorf("last modified %v, before %v", m, before.Modified)
			}
		}},
		{7, "a new queue verifies when asked, and says when it was made", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			d := s.do("PUT", "/state/new?t=xml", "").want(t, 201).decoded(t, state.QueueClass)
			want(t, "verifies", says(d, "verifyOnRead", "verifyOnWrite"), []string{"false", "false"})
			if d.Property("created") == nil {
				t.Error("no date of creation")
			}
		}},
		{9, "queues are made, configured, paused and removed", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.do("PUT", "/state/new?name=N", "").want(t, 201)
			s.do("PUT", "/state/new?description=D&cullingAgeThreshold=720", "").want(t, 200)
			q := s.do("POST", "/state/new?t=json", "name=M&S=pause&closed=true", "Content-Type", "application/x-www-form-urlencoded").want(t, 200).queue(t)
			want(t, "properties", [5]any{q.Info.Name, q.Info.Description, q.Info.CullingAge, q.Info.Closed, q.Info.Paused.IsZero()}, [5]any{"M", "D", int64(720), true, false})
			s.do("POST", "/content/new", "x").want(t, 409)
			s.do("POST", "/state/new?S=restart&closed=false", "").want(t, 200)
			s.do("POST", "/content/new", "x").want(t, 201)
			if got := s.do("DELETE", "/state/new", "").want(t, 409).exception(t); !strings.Contains(got, "cull the queue first") {
				t.Errorf("no way out in %q", got)
			}
			s.do("DELETE", "/content/new/j000000000001", "").want(t, 202)
			s.do("POST", "/state/new?cullingAgeThreshold=0&cullingSizeThreshold=0", "").want(t, 200)
			s.do("POST", "/cull/new", "").want(t, 200)
			left := s.do("DELETE", "/state/new?t=json", "").want(t, 200).decoded(t, state.ServiceClass)
			want(t, "queues left", left.Service().Queues, []string{"jobs"})
			s.do("GET", "/state/new", "").want(t, 404)
		}},
		{10, "completed is consumed, and further counts are given", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for range 5 {
				s.submit("x", queuefs.Meta{})
			}
			s.do("POST", "/consume/jobs", "").want(t, 200)
			s.do("DELETE", "/content/jobs/j000000000002", "").want(t, 202)
			s.do("POST", "/hold/jobs/j000000000003", "").want(t, 200)
			token := s.do("POST", "/consume/jobs?lease=60", "").want(t, 200).Header.Get("Cutie-Lease")
			d := s.do("GET", "/state/jobs?t=json", "").decoded(t, state.QueueClass)
			want(t, "counts", says(d, "numPendingJobs", "numCompletedJobs", "numDeletedJobs", "numHeldJobs", "numLeasedJobs", "numFailedJobs", "status"),
				[]string{"2", "2", "1", "1", "1", "0", "running"})
			s.do("POST", "/outcome/jobs/j000000000004?outcome=error", "", "Cutie-Lease", token).want(t, 200)
			s.do("POST", "/state/jobs?S=pause", "").want(t, 200)
			d = s.do("GET", "/state/jobs?t=json", "").decoded(t, state.QueueClass)
			want(t, "counts", says(d, "numLeasedJobs", "numFailedJobs", "status"), []string{"0", "1", "paused"})
			if says(d, "lastConsumption")[0] == "" || says(d, "paused")[0] == "" {
				t.Errorf("no dates in %+v", d)
			}
		}},
		{11, "jobs are listed in pages that say what they leave out", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for range 5 {
				s.submit("x", queuefs.Meta{})
			}
			s.do("POST", "/consume/jobs", "").want(t, 200)
			var got []string
			path := "/state/jobs?status=pending&limit=3&t=json"
			for n := 0; path != ""; n++ {
				d := s.do("GET", path, "").want(t, 200).decoded(t, state.QueueClass)
				got = append(got, says(d, "jobStates", "jobsStatus", "jobsLimit", "jobsAfter")...)
				path = strings.TrimPrefix(says(d, "jobsNext")[0], s.url)
				if path != "" {
					path += "&t=json"
				}
			}
			ref := s.url + "/state/jobs/j00000000000"
			want(t, "pages", got, []string{ref + "2 " + ref + "3 " + ref + "4", "pending", "3", "", ref + "5", "pending", "3", "j000000000004"})
		}},
		{17, "the culling size counts jobs, and unset never culls", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			d := s.do("GET", "/state/jobs?t=json", "").decoded(t, state.QueueClass)
			want(t, "thresholds", says(d, "cullingSizeThreshold", "cullingAgeThreshold"), []string{"-1", "-1"})
			s.do("POST", "/state/jobs?cullingSizeThreshold=5", "").want(t, 200)
			s.do("POST", "/state/jobs?cullingSizeThreshold=-1&cullingAgeThreshold=-1", "").want(t, 200)
			want(t, "unset", [2]int64{s.q.Info().CullingSize, s.q.Info().CullingAge}, [2]int64{-1, -1})
			for range 3 {
				s.submit(strings.Repeat("x", 1000), queuefs.Meta{})
				s.do("POST", "/consume/jobs", "").want(t, 200)
			}
			want(t, "unset", len(s.do("POST", "/cull/jobs?t=json", "").want(t, 200).queue(t).Changes.Culled), 0)
			s.do("POST", "/state/jobs?cullingSizeThreshold=2&cullingAgeThreshold=0", "").want(t, 200)
			want(t, "two jobs", len(s.do("POST", "/cull/jobs?t=json", "").want(t, 200).queue(t).Changes.Culled), 1)
		}},
	})
}

// TestItemsOfJobs checks what is told of jobs, and the references to them.
func TestItemsOfJobs(t *testing.T) {
	runItems(t, []item{
		{12, "dates that there are not are left out", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			d := s.do("GET", "/state/jobs?t=json", "").decoded(t, state.QueueClass)
			want(t, "queue", says(d, "lastSubmission", "lastConsumption", "oldestPending"), []string{"", "", ""})
			s.submit("x", queuefs.Meta{})
			d = s.do("GET", "/state/jobs/j000000000001?t=json", "").decoded(t, state.JobClass)
			for _, name := range []string{"consumed", "deleted", "requeued", "held", "finished", "leaseExpires"} {
				if d.Property(name) != nil {
					t.Errorf("%s: got %v", name, d.Property(name))
				}
			}
		}},
		{13, "a deleted job has the date of its consumption if there was one", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.submit("x", queuefs.Meta{})
			s.submit("x", queuefs.Meta{})
			s.do("POST", "/consume/jobs", "").want(t, 200)
			consumed := s.do("GET", "/state/jobs/j000000000001?t=json", "").job(t).Consumed
			s.do("POST", "/requeue/jobs/j000000000001", "").want(t, 200)
			d := s.do("DELETE", "/content/jobs/j000000000001?t=json", "").want(t, 202).decoded(t, state.JobClass)
			line := "\nconsumed: " + queuefs.FormatTime(consumed) + "\n"
			if file := s.do("GET", "/queues/jobs/deleted/j000000000001", "").want(t, 200).body; !strings.Contains(file, line) {
				t.Errorf("got %s", file)
			}
			never := s.do("DELETE", "/content/jobs/j000000000002?t=json", "").want(t, 202).decoded(t, state.JobClass)
			want(t, "never consumed", says(never, "consumed")[0], "")
			if says(d, "consumed")[0] != queuefs.FormatTime(consumed) || says(d, "deleted")[0] == "" || says(d, "requeued")[0] == "" {
				t.Errorf("got %+v", d)
			}
		}},
		{14, "dates are W3CDTF with their offset", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.submit("x", queuefs.Meta{})
			form := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
			d := s.do("GET", "/state/jobs/j000000000001?t=ttl", "").decoded(t, state.JobClass)
			if got := says(d, "submitted")[0]; !form.MatchString(got) {
				t.Errorf("got %q", got)
			}
		}},
		{15, "the submitter is the user agent, or unknown", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			got := s.do("POST", "/content/jobs?t=json", "x", "User-Agent", "cutie/0.3 (me@here)").want(t, 201).decoded(t, state.JobClass)
			want(t, "named", says(got, "submitter"), []string{"cutie/0.3 (me@here)"})
			req := s.request("POST", "/content/jobs?t=json", strings.NewReader("x"))
			req.Header["User-Agent"] = []string{""} // or package http gives its own
			got = s.send(req).want(t, 201).decoded(t, state.JobClass)
			want(t, "nameless", says(got, "submitter"), []string{"(:unkn)"})
		}},
		{16, "file name and digests are kept", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			a := s.postForm(newForm().file("/tmp/in put.txt", "abc").field("digest-type", "crc-32").field("digest-value", "352441c2").end(), "Accept", "application/json").want(t, 201)
			want(t, "job", says(a.decoded(t, state.JobClass), "filename", "digestTypes", "digestValues"), []string{"in put.txt", "SHA-256 CRC-32",
				"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 352441c2"})
		}},
		{19, "hold and outcome are properties of pending and consumed jobs", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.submit("x", queuefs.Meta{})
			d := s.do("POST", "/hold/jobs/j000000000001?t=xml", "reason=because", "Content-Type", "application/x-www-form-urlencoded").want(t, 200).decoded(t, state.JobClass)
			want(t, "held", says(d, "status", "heldFor"), []string{"pending", "because"})
			s.do("POST", "/consume/jobs", "").want(t, 204)
			s.do("GET", "/content/jobs", "").want(t, 204)
			d = s.do("POST", "/release/jobs/j000000000001?t=xml", "").want(t, 200).decoded(t, state.JobClass)
			want(t, "released", says(d, "status", "held", "heldFor"), []string{"pending", "", ""})
			token := s.do("POST", "/consume/jobs?lease=9", "").want(t, 200).Header.Get("Cutie-Lease")
			d = s.do("POST", "/outcome/jobs/j000000000001?t=xml&outcome=error&type=fatal&message=no%0Amore", "", "Cutie-Lease", token).want(t, 200).decoded(t, state.JobClass)
			want(t, "failed", says(d, "status", "outcome", "message", "errorType"), []string{"consumed", "error", "no\nmore", "fatal"})
		}},
		{26, "identifiers of jobs sort, and are no numbers", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			last := ""
			for range 11 {
				id := s.do("POST", "/content/jobs?t=ttl", "x").want(t, 201).job(t).ID.String()
				if len(id) != 13 || id <= last || id[0] != 'j' {
					t.Errorf("got %q behind %q", id, last)
				}
				last = id
			}
			for form, text := range map[string]string{"json": `"identifier":"j000000000011"`, "ttl": `job:identifier "j000000000011"`} {
				if a := s.do("GET", "/state/jobs/"+last+"?t="+form, ""); !strings.Contains(a.body, text) {
					t.Errorf("%s: no %s in %s", form, text, a.body)
				}
			}
		}},
		{40, "references do not come from Host", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			req := s.request("POST", "/content/jobs", strings.NewReader("x"))
			req.Host = "ingest.cdlib.org"
			a := s.send(req).want(t, 201)
			a.header(t, "Location", s.url+"/state/jobs/j000000000001")
			if strings.Contains(a.body, "ingest.cdlib.org") {
				t.Errorf("got %s", a.body)
			}
		}},
		{45, "the base URI may have a path, and ends in one slash or none", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, base := range []string{"http://store:8080/store", "http://store:8080/store/"} {
				s.svc.SetBaseURI(base)
				a := s.do("POST", "/content/jobs?t=json", "x").want(t, 201)
				id := a.job(t).ID.String()
				a.header(t, "Location", "http://store:8080/store/state/jobs/"+id)
				want(t, base, says(a.decoded(t, state.JobClass), "queueState", "payload"), []string{
					"http://store:8080/store/state/jobs", "http://store:8080/store/queues/jobs/payload/" + id})
				s.do("POST", "/consume/jobs?lease=5", "").header(t, "Content-Location", "http://store:8080/store/content/jobs/"+id)
			}
		}},
	})
}

// A lease is told in the state, and its key is not.
func TestStateTellsALeaseAndKeepsItsKey(t *testing.T) {
	s, d := newDialled(t)
	s.submit("x", queuefs.Meta{})
	a := s.do("POST", "/consume/jobs?lease=90.5", "").want(t, 200)
	token, ends := a.Header.Get("Cutie-Lease"), queuefs.FormatTime(d.now().Add(90*time.Second+500*time.Millisecond))
	a.header(t, "Cutie-Lease-Expires", ends)
	for _, form := range []string{"anvl", "json", "ttl", "xml", "xhtml", "soif"} {
		a := s.do("GET", "/state/jobs/j000000000001?t="+form, "").want(t, 200)
		doc := a.decoded(t, state.JobClass)
		want(t, form, says(doc, "leaseExpires", "numAttempts"), []string{ends, "1"})
		if strings.Contains(a.body, token) || strings.Contains(strings.ToLower(a.body), "leasekey") {
			t.Errorf("%s tells the key: %s", form, a.body)
		}
	}
	var links []string
	for _, l := range a.Header["Link"] {
		links = append(links, strings.ReplaceAll(l, s.url, ""))
	}
	want(t, "links", links, []string{`</state/jobs/j000000000001>; rel="describedby"`,
		`</lease/jobs/j000000000001>; rel="` + rest.Relation + `lease"`,
		`</outcome/jobs/j000000000001>; rel="` + rest.Relation + `outcome"`,
		`</result/jobs/j000000000001>; rel="` + rest.Relation + `result"`})
}

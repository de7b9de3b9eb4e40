package rest_test

import (
	"fmt"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

func TestQueueStateListsJobsByPage(t *testing.T) {
	s := newSite(t, rest.Options{})
	for range 250 {
		s.submit("", queuefs.Meta{})
	}
	s.do("POST", "/consume/jobs?max=7", "").want(t, 200)
	// Following jobsNext shows every job once.
	for _, query := range []string{"", "?limit=0", "?limit=1000", "?limit=50&status=pending", "?status=consumed", "?limit=3&status=consumed&after=j000000000002", "?status=deleted"} {
		var got []string
		next := s.url + "/state/jobs" + query
		pages := 0
		for next != "" {
			a := s.do("GET", strings.TrimPrefix(next, s.url), "", "Accept", "text/x-anvl").want(t, 200)
			d, err := state.ANVL.Decode(state.QueueClass, []byte(a.body))
			if err != nil {
				t.Fatal(err)
			}
			q, err := d.Queue()
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range q.Jobs.IDs {
				got = append(got, id.String())
			}
			if len(q.Jobs.IDs) > q.Jobs.Limit {
				t.Errorf("%s: %d jobs, limit %d", next, len(q.Jobs.IDs), q.Jobs.Limit)
			}
			next = ""
			if p := d.Property("jobsNext"); p != nil {
				next = p.Text
			}
			if pages++; pages > 20 {
				t.Fatalf("%s: no end", query)
			}
		}
		o := queuefs.ListOptions{Limit: 1000}
		switch {
		case strings.Contains(query, "pending"):
			o.Status = queuefs.Pending
		case strings.Contains(query, "consumed"):
			o.Status = queuefs.Consumed
		case strings.Contains(query, "deleted"):
			o.Status = queuefs.Deleted
		}
		if strings.Contains(query, "after") {
			o.After = 2
		}
		var want []string
		for _, id := range s.q.IDs(o) {
			want = append(want, id.String())
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: got %v, want %v", query, got, want)
		}
	}
}

func TestStateIsNotSentAgainUnlessItChanged(t *testing.T) {
	s := newSite(t, rest.Options{})
	id := s.submit("x", queuefs.Meta{}).ID.String()
	paths := []string{"/state", "/state/jobs", "/state/jobs?limit=0", "/state/jobs?limit=0&t=anvl", "/state/jobs?status=pending", "/state/jobs?after=" + id,
		"/state/jobs/" + id, "/state/jobs/" + id + "?t=anvl"}
	tags := map[string]string{}
	for _, path := range paths {
		a := s.do("GET", path, "").want(t, 200)
		tag := a.Header.Get("Etag")
		for other, used := range tags {
			if tag == used || tag == "" {
				t.Errorf("%s: same tag %s as %s", path, tag, other)
			}
		}
		tags[path] = tag
		not := s.do("GET", path, "", "If-None-Match", `"x", W/`+tag).want(t, 304)
		not.header(t, "Etag", tag)
		if not.body != "" {
			t.Errorf("%s: got %q", path, not.body)
		}
		s.do("GET", path, "", "If-None-Match", `"x"`, "If-None-Match", `"y", `+tag).want(t, 304)
		s.do("HEAD", path, "", "If-None-Match", tag).want(t, 304)
		s.do("HEAD", path, "").want(t, 200).header(t, "Content-Length", a.Header.Get("Content-Length"))
		s.do("GET", path, "", "If-None-Match", `"x"`).want(t, 200)
	}
	s.do("POST", "/consume/jobs", "").want(t, 200)
	s.do("PUT", "/state/another", "").want(t, 201)
	for _, path := range paths {
		s.do("GET", path, "", "If-None-Match", tags[path]).want(t, 200)
	}
}

func TestDeleteAndRequeueAreIdempotent(t *testing.T) {
	s := newSite(t, rest.Options{})
	id := s.submit("x", queuefs.Meta{}).ID.String()
	states := func(a answer, want queuefs.Status) {
		t.Helper()
		d, err := state.ANVL.Decode(state.JobClass, []byte(a.body))
		if err != nil {
			t.Fatal(err)
		}
		if j, err := d.Job(); err != nil || j.Status != want {
			t.Errorf("got %+v, %v, want %s", j, err, want)
		}
	}
	for range 2 {
		states(s.do("DELETE", "/content/jobs/"+id, "", "Accept", "text/anvl").want(t, 202), queuefs.Deleted)
		s.wantCounts(0, 0, 1)
	}
	for range 2 {
		states(s.do("POST", "/requeue/jobs/"+id+"?t=anvl", "").want(t, 200), queuefs.Pending)
		s.wantCounts(1, 0, 0)
	}
	if got := s.only(); got.Requeues != 1 {
		t.Errorf("requeued %d times", got.Requeues)
	}
}

func TestCreateQueueTakesPropertiesInEveryForm(t *testing.T) {
	s := newSite(t, rest.Options{})
	multi := newForm().field("name", "N").field("description", "D").field("cullingSizeThreshold", "5").field("verifyOnRead", "false").end()
	const (
		form = "application/x-www-form-urlencoded"
		anvl = "text/x-anvl"
		json = "application/json"
	)
	tests := []struct {
		media, body string
		status      int
		want        string
	}{
		{"", "", 201, ""},
		{form, "name=N&description=D&cullingSizeThreshold=5&verifyOnRead=false", 201, "N"},
		{"multipart/form-data; boundary=b0undary", multi, 201, "N"},
		{"text/anvl; charset=utf-8", "name: N\ndescription: D\ncullingSizeThreshold: 5\nverifyOnRead: false\n", 201, "N"},
		{json, `{"name":"N","description":"D","cullingSizeThreshold":5,"verifyOnRead":false,"cullingAgeThreshold":null}`, 201, "N"},
		{json, `{"@context":{"@vocab":"x"},"@type":"queueState","@id":"y","name":"N","description":"D","cullingSizeThreshold":"5","verifyOnRead":false}`, 201, "N"},
		{json, `{"que:queueState":{"que:name":"N"}}`, 400, "no value for a property"},
		{json, `{"que:name":"N"}`, 400, "no property"},
		{"", "name=N", 400, "Content-Type"},
		{"text/plain", "name=N", 415, "unsupported request form"},
		{"application/xml", "<x/>", 415, "unsupported request form"},
		{form, "name=N&name=M", 400, "repeated"},
		{form, "colour=red", 400, "no property"},
		{form, "name=%zz", 400, "form"},
		{form, "cullingSizeThreshold=-2", 400, "number from 0"},
		{form, "verifyOnRead=yes", 400, "neither true nor false"},
		{form, "identifier=other", 400, "not that of the path"},
		{form, "identifier=cutie", 400, "bad name"},
		{anvl, "no colon\n", 400, "no colon"},
		{json, `[]`, 400, "JSON"},
		{json, `{"name":["N"]}`, 400, "no value"},
		{json, `{"name":"` + strings.Repeat("x", 70<<10) + `"}`, 413, "octets"},
		{"multipart/form-data; boundary=b0undary", multi[:40], 400, "ends before"},
		{"multipart/form-data", multi, 400, "boundary"},
	}
	for i, tt := range tests {
		name := fmt.Sprint("q", i)
		tt.body = strings.ReplaceAll(tt.body, `"N"`, `"`+name+` name"`) // names are unique
		tt.body = strings.NewReplacer("name=N", "name="+name+" name", "name: N", "name: "+name+" name", "\r\n\r\nN\r\n", "\r\n\r\n"+name+" name\r\n").Replace(tt.body)
		var header []string
		if tt.media != "" {
			header = []string{"Content-Type", tt.media}
		}
		a := s.do("PUT", "/state/"+name, tt.body, header...)
		if a.StatusCode != tt.status {
			t.Errorf("%s %.60q: got %s\n%s", tt.media, tt.body, a.Status, a.body)
			continue
		}
		q, err := s.svc.Queue(name)
		if tt.status != 201 {
			if got := a.exception(t); !strings.Contains(got, tt.want) || err == nil {
				t.Errorf("%s %.60q: got %q, %v, want %q", tt.media, tt.body, got, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got, want := q.Info(), queuefs.QueueInfo{ID: name, Identifier: name, CullingSize: -1, CullingAge: -1}
		if tt.want != "" {
			want.Name, want.Description, want.CullingSize, want.VerifyOnRead = name+" name", "D", 5, false
		}
		want.Created = got.Created
		if got != want {
			t.Errorf("%s: got %+v, want %+v", tt.media, got, want)
		}
		a.header(t, "Location", s.url+"/state/"+name)
	}
}

func TestHelp(t *testing.T) {
	s := newSite(t, rest.Options{})
	all := s.do("GET", "/help", "", "Accept", "text/plain").want(t, 200)
	all.header(t, "Content-Type", "text/plain; charset=utf-8")
	for _, method := range []string{"Help", "Get-service-state", "Get-Queue-State", "get-job-state", "submit-job", "get-next-job", "peek-at-job", "delete-job",
		"submitJob", "SUBMITJOB", "deleteItem", "peek", "requeueJob", "createQueue",
		"setQueueBehavior", "removeQueue", "cull", "getBatchState", "hold-job", "releaseJob", "extendLease", "reportOutcome", "abortJob", "putResult", "getResult", "watch"} {
		text := s.do("GET", "/help/"+method, "", "Accept", "text/plain").want(t, 200)
		request := strings.Split(text.body, "\n")[2]
		if !strings.Contains(all.body, request+"\n") || request == "" {
			t.Errorf("%s: %q is not in the overview", method, request)
		}
		d, err := state.JSON.Decode(state.HelpClass, []byte(s.do("GET", "/help/"+method+"?t=json", "").want(t, 200).body))
		if err != nil || d.Property("request").Text != request {
			t.Errorf("%s: got %+v, %v", method, d, err)
		}
	}
	d, err := state.ANVL.Decode(state.HelpClass, []byte(s.do("GET", "/help", "", "Accept", "text/anvl").want(t, 200).body))
	if err != nil || len(d.Property("methods").Items) != 22 {
		t.Errorf("got %+v, %v", d, err)
	}
	// ?h and ?V are instead of the method.
	if got := s.do("POST", "/content/jobs?h", "x").want(t, 200); got.body != s.do("GET", "/help/submitJob", "").body || got.Header.Get("Content-Type") != state.XHTML.MediaType() {
		t.Errorf("?h: got %q", got.body)
	}
	if got := s.do("GET", "/state?V", "").want(t, 200); got.body != queuefs.Scheme+"\n" {
		t.Errorf("?V: got %q", got.body)
	}
	s.wantCounts(0, 0, 0)
}

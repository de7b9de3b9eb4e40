package rest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// Every method answers in each of the five forms, asked for by ?t= or by
// Accept, and what it says can be read back.
func TestEveryMethodAnswersInEveryForm(t *testing.T) {
	s := newSite(t, rest.Options{})
	const manifest = "#%checkm_0.7\n#%eof\n"
	tests := []struct {
		method, path string
		body         string
		header       []string
		status       int
		class        *state.Class
	}{
		{"GET", "/help", "", nil, 200, state.HelpClass},
		{"GET", "/help/submitJob", "", nil, 200, state.HelpClass},
		{"GET", "/state", "", nil, 200, state.ServiceClass},
		{"POST", "/state", "identifier=NEW", []string{"Content-Type", "application/x-www-form-urlencoded"}, 201, state.QueueClass},
		{"DELETE", "/state/NEW", "", nil, 200, state.ServiceClass},
		{"PUT", "/state/NEW", "name: NEW\n", []string{"Content-Type", "text/x-anvl"}, 201, state.QueueClass},
		{"PUT", "/state/NEW", `{"description":"d"}`, []string{"Content-Type", "application/json"}, 200, state.QueueClass},
		{"POST", "/state/NEW?S=pause", "", nil, 200, state.QueueClass},
		{"GET", "/state/jobs?limit=2", "", nil, 200, state.QueueClass},
		{"GET", "/state/jobs/CONSUMED", "", nil, 200, state.JobClass},
		{"POST", "/content/jobs", "x", nil, 201, state.JobClass},
		{"POST", "/content/jobs", newForm().file("a", "1").file("b", "2").end(), []string{"Content-Type", "multipart/form-data; boundary=b0undary"}, 201, state.QueueClass},
		{"POST", "/content/jobs?type=batch-manifest", manifest, nil, 400, state.ExceptionClass},
		{"DELETE", "/content/jobs/PENDING", "", nil, 202, state.JobClass},
		{"POST", "/delete/jobs/PENDING", "", nil, 202, state.JobClass},
		{"POST", "/delete/jobs?job=PENDING", "", nil, 200, state.QueueClass},
		{"POST", "/hold/jobs/PENDING", "", nil, 200, state.JobClass},
		{"POST", "/hold/jobs", "PENDING\n", []string{"Content-Type", "text/plain"}, 200, state.QueueClass},
		{"POST", "/release/jobs/PENDING", "", nil, 200, state.JobClass},
		{"POST", "/release/jobs?held", "", nil, 200, state.QueueClass},
		{"POST", "/requeue/jobs/CONSUMED", "", nil, 200, state.JobClass},
		{"POST", "/requeue/jobs/CONSUMED?end", "", nil, 201, state.JobClass},
		{"POST", "/requeue/jobs?status=deleted&dry", "", nil, 200, state.QueueClass},
		{"POST", "/abort/jobs/PENDING", "", nil, 200, state.JobClass},
		{"POST", "/lease/jobs/LEASED", "", []string{"Cutie-Lease", "TOKEN"}, 200, state.JobClass},
		{"PUT", "/result/jobs/LEASED/out", "r", []string{"Cutie-Lease", "TOKEN"}, 201, state.JobClass},
		{"POST", "/outcome/jobs/LEASED?outcome=completed", "", []string{"Cutie-Lease", "TOKEN"}, 200, state.JobClass},
		{"POST", "/cull", "", nil, 200, state.ServiceClass},
		{"POST", "/cull/jobs?dry", "", nil, 200, state.QueueClass},
	}
	// A queue that is made is made once for each form, under another name.
	made := 0
	for _, form := range []state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML, state.SOIF} {
		for _, byName := range []bool{true, false} {
			made++
			name := "new" + strings.Repeat("x", made)
			for _, tt := range tests {
				pending := s.submit("p", queuefs.Meta{}).ID.String()
				consumed, leased, token := s.consumed(t)
				fill := strings.NewReplacer("NEW", name, "PENDING", pending, "CONSUMED", consumed, "LEASED", leased, "TOKEN", token).Replace
				path, header := fill(tt.path), []string{}
				for _, h := range tt.header {
					header = append(header, fill(h))
				}
				switch {
				case !byName:
					header = append(header, "Accept", form.MediaType())
				case strings.Contains(path, "?"):
					path += "&t=" + form.String()
				default:
					path += "?t=" + form.String()
				}
				a := s.do(tt.method, path, fill(tt.body), header...)
				if a.StatusCode != tt.status || a.Header.Get("Content-Type") != form.MediaType() {
					t.Errorf("%s %s: got %s %s, want %d %s\n%s", tt.method, path, a.Status, a.Header.Get("Content-Type"), tt.status, form.MediaType(), a.body)
					continue
				}
				if d := a.decoded(t, tt.class); len(d.Properties) < 3 {
					t.Errorf("%s %s: got %+v", tt.method, path, d)
				}
				policy := ""
				if form == state.XHTML {
					policy = state.PagePolicy
				}
				a.header(t, "Content-Security-Policy", policy)
				a.header(t, "X-Content-Type-Options", "nosniff")
				if location := a.Header.Get("Location"); (location == "") != (tt.status != 201) {
					t.Errorf("%s %s: %s with Location %q", tt.method, path, a.Status, location)
				}
			}
		}
	}
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged: %v", errs)
	}
}

// consumed puts two jobs into the queue and takes them, the second
// with a lease.
func (s *site) consumed(t *testing.T) (consumed, leased, token string) {
	t.Helper()
	a, b := s.submit("c", queuefs.Meta{}).ID, s.submit("l", queuefs.Meta{}).ID
	for {
		j, err := s.q.Next(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		if j.ID == a {
			break
		}
		if _, err := s.q.Requeue(ctx, j.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := s.q.Hold(ctx, j.ID, ""); err != nil { // out of the way
			t.Fatal(err)
		}
	}
	taken, err := s.q.Take(ctx, queuefs.Take{Lease: 1e12})
	if err != nil || taken[0].ID != b {
		t.Fatalf("got %v, %v, want %v", taken, err, b)
	}
	return a.String(), b.String(), taken[0].Token
}

// Every form on a page goes to a method that knows its fields.
func TestFormsOfPagesAreServed(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", queuefs.Meta{})
	pages := []string{"/state", "/state/jobs", "/state/jobs/j000000000001"}
	seen := 0
	for _, page := range pages {
		body := s.do("GET", page+"?t=xhtml", "").want(t, 200).body
		for _, form := range strings.Split(body, `<form method="post" action="`)[1:] {
			action, _, _ := strings.Cut(form, `"`)
			path := strings.TrimPrefix(strings.ReplaceAll(action, "&amp;", "&"), s.url)
			if a := s.do("POST", path+"&h", "").want(t, 200); !strings.Contains(a.body, "helpState") {
				t.Errorf("%s: no help about %s", page, path)
			}
			seen++
		}
	}
	if seen != 7 {
		t.Errorf("got %d forms, want 7", seen)
	}
}

func TestSchemasAreServed(t *testing.T) {
	s := newSite(t, rest.Options{})
	for _, class := range state.Schemas {
		if a := s.do("GET", "/schema/"+class.Root+".json", "").want(t, 200); a.body != string(state.JSONSchema(class)) {
			t.Errorf("%s.json: got %s", class.Root, a.body)
		}
	}
	for name, class := range state.Facts {
		a := s.do("GET", "/schema/"+name+".json", "").want(t, 200)
		a.header(t, "Content-Type", "application/schema+json")
		if a.body != string(state.JSONSchema(class)) {
			t.Errorf("%s.json: got %s", name, a.body)
		}
		s.do("GET", "/schema/"+name+".xsd", "").want(t, 404)
	}
	for name, class := range state.Schemas {
		for ext, schema := range map[string]struct {
			media string
			text  []byte
		}{"xsd": {"application/xml", state.XMLSchema(class)}, "json": {"application/schema+json", state.JSONSchema(class)}} {
			a := s.do("GET", "/schema/"+name+"."+ext, "").want(t, 200)
			a.header(t, "Content-Type", schema.media)
			if a.body != string(schema.text) {
				t.Errorf("%s.%s: got %s", name, ext, a.body)
			}
			s.do("GET", "/schema/"+name+"."+ext, "", "If-None-Match", a.Header.Get("Etag")).want(t, 304)
		}
	}
}

// What every form can say of a property is in all of them.
func TestPropertiesAreInEveryForm(t *testing.T) {
	s := newSite(t, rest.Options{})
	const said = "a\u0085\u009b31m\u202eb\u2028c <&\"'\\ \U0001F600"
	body, err := json.Marshal(map[string]string{"description": said})
	if err != nil {
		t.Fatal(err)
	}
	s.do("POST", "/state/jobs", string(body), "Content-Type", "application/json").want(t, 200)
	for _, form := range []state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML, state.SOIF} {
		want(t, form.String(), s.do("GET", "/state/jobs?t="+form.String(), "").want(t, 200).queue(t).Info.Description, said)
	}
}

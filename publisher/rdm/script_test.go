package rdm_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/web"
)

// The scripts in testdata are what clients, workers and operators do to one service with
// the queues ingest and access, against one handler that takes 3 objects in a submission,
// 4,000 bytes in a message, and sorts 20 descriptions. The commands are below.
func TestScripts(t *testing.T) {
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, do := range scriptCommands {
		commands[name] = func(ts *testscript.TestScript, not bool, args []string) {
			s := ts.Value(scriptKey{}).(*script)
			if s.ts = ts; s.site == nil {
				o := rdm.Options{MaxObjects: 3, MaxBody: 4000, MaxOrdered: 20, Allow: s.allow, User: func(context.Context) string { return s.user }}
				s.site = newSite(t, o)
				ts.Setenv("OWN", ownURL)
				ts.Defer(func() {
					if len(s.logged) > 0 {
						ts.Fatalf("logged %v", s.logged)
					}
				})
			}
			do(s, not, args)
		}
	}
	testscript.Run(t, testscript.Params{Dir: "testdata", Cmds: commands, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Values[scriptKey{}] = &script{may: []string{"*"}}
			return nil
		}})
}

type scriptKey struct{}

type script struct {
	*site
	ts    *testscript.TestScript
	user  string
	may   []string // RIGHT:QUEUE, or * for all
	taken queuefs.Taken
}

func (s *script) allow(header http.Header, _ *http.Request, right web.Right, queue string) error {
	if slices.Contains(s.may, "*") || slices.Contains(s.may, right.String()+":"+queue) {
		return nil
	}
	header.Set("WWW-Authenticate", "Basic")
	return &web.Error{Status: 401, Message: "no " + right.String() + " for " + queue}
}

func (s *script) same(what string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		s.ts.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// check compares the status of an answer, and the beginning of its error; it prints the
// answer.
func (s *script) check(a answer, status, fail string) {
	fmt.Fprint(s.ts.Stdout(), a.body)
	if got := strconv.Itoa(a.StatusCode); got != status || !strings.HasPrefix(a.failure(), fail) || fail == "" && a.failure() != "" {
		s.ts.Fatalf("got %s %q, want %s %q", got, a.failure(), status, fail)
	}
	s.same("WWW-Authenticate", a.Header.Get("WWW-Authenticate") != "", a.StatusCode == 401)
}

// objectOf reads [@TYPE ]URL|NAME=VALUE…
func objectOf(text string) soif.Object {
	parts := strings.Split(text, "|")
	o := soif.Object{Type: "DOCUMENT", URL: parts[0]}
	if strings.HasPrefix(text, "@") {
		typ, url, _ := strings.Cut(parts[0][1:], " ")
		o.Type, o.URL = typ, url
	}
	if o.URL == "-" {
		o.URL = ""
	}
	for _, p := range parts[1:] {
		name, value, _ := strings.Cut(p, "=")
		o.Add(name, unquoted(value))
	}
	return o
}

func unquoted(text string) string {
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	if err != nil {
		panic(err)
	}
	return text
}

func objectsOf(texts []string) (list []soif.Object) {
	for _, text := range texts {
		list = append(list, objectOf(text))
	}
	return list
}

var listed = regexp.MustCompile(`<LI>([^\n]*)`)

var scriptCommands = map[string]func(s *script, not bool, args []string){
	"fill": func(s *script, _ bool, _ []string) { s.site.fill() },
	// clock TIME
	"clock": func(s *script, _ bool, args []string) { s.clock.set(args[0]) },
	// may RIGHT:QUEUE…
	"may": func(s *script, _ bool, args []string) { s.may = args },
	"as":  func(s *script, _ bool, args []string) { s.user = args[0] },
	// get STATUS TYPE JOBS QUERY [ERROR] compares the jobs described; HEAD has the same
	"get": func(s *script, _ bool, args []string) {
		a := s.site.get(args[3])
		s.check(a, args[0], strings.Join(args[4:], " "))
		s.same("type", a.objects[0].Value("RDM-Type"), args[1])
		s.same("jobs", a.urls(), args[2])
		head := s.do(httptest.NewRequest("HEAD", rdm.Path+args[3], nil))
		s.same("status of HEAD", head.StatusCode, a.StatusCode)
		s.same("header of HEAD", head.Header, a.Header)
	},
	// objects QUERY OBJECT…
	"objects": func(s *script, _ bool, args []string) {
		s.same("objects", fmt.Sprint(s.site.get(args[0]).objects[1:]), fmt.Sprint(objectsOf(args[1:])))
	},
	// raw STATUS TEXT ERROR posts text
	"raw": func(s *script, _ bool, args []string) {
		s.check(s.site.post(unquoted(args[1])), args[0], strings.Join(args[2:], " "))
	},
	// post STATUS TYPE ERROR RESULTS OBJECT…; TYPE may have a catalog behind a blank
	"post": func(s *script, _ bool, args []string) {
		typ, csid, _ := strings.Cut(args[1], " ")
		a := s.site.post(headed(typ, csid, objectsOf(args[4:])...))
		s.check(a, args[0], args[2])
		var got []string
		if len(a.objects) == 2 {
			page := a.objects[1].Value("Status-Message")
			accepted, rejected := 0, 0
			for _, m := range listed.FindAllStringSubmatch(page, -1) {
				text := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(m[1], ""))
				n := strconv.Itoa(len(got) + 1)
				if why, ok := strings.CutPrefix(text, "rejected: "); ok {
					rejected++
					s.same("error", a.objects[1].Value("Error-"+n), why)
				} else {
					accepted++
					done, job, _ := strings.Cut(text, " ")
					url := a.objects[1].Value("RD-URL-" + n)
					s.same("URL", url[strings.LastIndex(url, "/")+1:], job)
					text = done + " " + strings.TrimPrefix(job, "j00000000000")
				}
				got = append(got, text)
			}
			s.same("Accepted", a.objects[1].Value("Accepted"), strconv.Itoa(accepted))
			s.same("Rejected", a.objects[1].Value("Rejected"), strconv.Itoa(rejected))
		}
		s.same("results", strings.Join(got, "; "), args[3])
	},
	// statuses STATUS…
	"statuses": func(s *script, _ bool, args []string) {
		var got []string
		for _, id := range s.q.IDs(index.Filter{}) {
			st, _ := s.q.Status(id)
			got = append(got, st.String())
		}
		s.same("statuses", got, args)
	},
	// submit N [NAME] submits jobs; their file names end in their numbers
	"submit": func(s *script, _ bool, args []string) {
		n, err := strconv.Atoi(args[0])
		s.ts.Check(err)
		for i := range n {
			s.site.submit(job.Meta{Filename: fmt.Sprintf("file %02d", i)}, "x")
		}
	},
	"next": func(s *script, _ bool, args []string) {
		j, err := s.q.Next(ctx, "worker")
		s.ts.Check(err)
		s.same("job", fmt.Sprint(int64(j.ID)), args[0])
	},
	"take": func(s *script, _ bool, _ []string) {
		taken, err := s.q.Take(ctx, queuefs.Take{By: "w", Lease: time.Minute})
		s.ts.Check(err)
		s.taken = taken[0]
	},
	"finish": func(s *script, _ bool, _ []string) {
		_, err := s.q.Conclude(ctx, s.taken.ID, s.taken.Token, job.Conclusion{Outcome: job.Completed})
		s.ts.Check(err)
	},
	// cull QUEUE culls all that may be culled
	"cull": func(s *script, _ bool, args []string) {
		_, err := s.svc.SetQueue(ctx, args[0], func(i *home.QueueInfo) error { i.CullingSize = 0; return nil })
		s.ts.Check(err)
		for _, err := range s.svc.Cull(ctx, queuefs.CullOptions{}) {
			s.ts.Check(err)
		}
	},
	// anew QUEUE removes a queue and makes it again; without QUEUE the handler is made again
	"anew": func(s *script, _ bool, args []string) {
		if len(args) == 0 {
			s.h = rdm.New(s.svc, s.o)
			return
		}
		s.ts.Check(s.svc.RemoveQueue(ctx, args[0]))
		_, err := s.svc.CreateQueue(ctx, home.QueueInfo{Identifier: args[0], CullingSize: -1, CullingAge: -1})
		s.ts.Check(err)
	},
	// default QUEUE is the default catalog from now on
	"default": func(s *script, _ bool, args []string) {
		s.ts.Check(s.svc.SetService(ctx, func(i *home.ServiceInfo) error { i.DefaultCatalog = args[0]; return nil }))
	},
}

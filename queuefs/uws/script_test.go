package uws_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/home"
	queuejob "cutie/queuefs/job"
	queueledger "cutie/queuefs/ledger"
	"cutie/queuefs/uws"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata are what clients, workers and operators do to one queue,
// against one handler. Each begins with queue and the properties of the queue; the
// commands are below.
func TestScripts(t *testing.T) {
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, do := range scriptCommands {
		commands[name] = func(ts *testscript.TestScript, not bool, args []string) {
			s := ts.Value(scriptKey{}).(*script)
			if s.ts = ts; s.world == nil {
				s.world = newWorld(scriptT{t, ts}, strings.Join(append(slices.DeleteFunc(args, func(string) bool { return name != "queue" }), ""), "\n"))
				s.seq = s.q.Seq()
				ts.Setenv("URL", s.srv.URL)
			}
			do(s, not, args)
		}
	}
	testscript.Run(t, testscript.Params{Dir: "testdata", Cmds: commands, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Values[scriptKey{}] = &script{}
			return nil
		}})
}

type scriptKey struct{}

// A script is a world, and the job taken last.
type script struct {
	*world
	ts    *testscript.TestScript
	seq   queuejob.Seq // seen by events
	taken queuefs.Taken
}

// A scriptT fails at a line of a script.
type scriptT struct {
	testing.TB
	ts *testscript.TestScript
}

func (s scriptT) Helper()                      {}
func (s scriptT) Cleanup(f func())             { s.ts.Defer(f) }
func (s scriptT) Fatal(a ...any)               { s.ts.Fatalf("%s", fmt.Sprint(a...)) }
func (s scriptT) Error(a ...any)               { s.ts.Fatalf("%s", fmt.Sprint(a...)) }
func (s scriptT) Fatalf(form string, a ...any) { s.ts.Fatalf(form, a...) }
func (s scriptT) Errorf(form string, a ...any) { s.ts.Fatalf(form, a...) }

// number is a job by its number; without one it is that taken last.
func (s *script) number(args []string) queuejob.ID {
	if len(args) == 0 {
		return s.taken.ID
	}
	n, err := strconv.Atoi(args[0])
	s.ts.Check(err)
	return queuejob.ID(n)
}

// below is a URL as it is below the queue.
func (s *script) below(where string) string {
	return strings.TrimPrefix(where, s.srv.URL+"/uws/q/")
}

func (s *script) same(what string, got, want []string) {
	if !slices.Equal(got, want) {
		s.ts.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

// lines returns a text with its breaks.
func lines(text string) string { return strings.ReplaceAll(text, `\n`, "\n") }

var scriptCommands = map[string]func(s *script, not bool, args []string){
	"queue": func(*script, bool, []string) {},
	// do STATUS METHOD WHERE [BODY [HEADER VALUE]…] sets AT to the Location
	"do": func(s *script, _ bool, args []string) {
		status, err := strconv.Atoi(args[0])
		s.ts.Check(err)
		body := ""
		if len(args) > 3 {
			body = args[3]
		}
		at, text := s.want(status, args[1], args[2], body, args[min(4, len(args)):]...)
		s.ts.Setenv("AT", s.below(at))
		io.WriteString(s.ts.Stdout(), text)
	},
	// create NAME FORM
	"create": func(s *script, _ bool, args []string) { s.ts.Setenv(args[0], s.below(s.world.create(args[1]))) },
	// get WHERE
	"get": func(s *script, _ bool, args []string) { io.WriteString(s.ts.Stdout(), s.world.get(args[0])) },
	// is WHERE TEXT
	"is": func(s *script, not bool, args []string) {
		if got := s.world.get(args[0]); (got == args[1]) == not {
			s.ts.Fatalf("got %q", got)
		}
	},
	// phase JOB PHASE
	"phase": func(s *script, _ bool, args []string) { s.world.phase(args[0], args[1]) },
	// list WHERE JOB…
	"list": func(s *script, _ bool, args []string) {
		var want []string
		for _, job := range args[1:] {
			want = append(want, idOf(job))
		}
		s.same("jobs", ids(s.world.get(args[0])), want)
	},
	// valid VERSION WHERE…
	"valid": func(s *script, _ bool, args []string) {
		var texts []string
		for _, where := range args[1:] {
			texts = append(texts, s.world.get(where))
		}
		valid(s.t, args[0], texts...)
	},
	// as [NAME] [delete] [own] [admin]
	"as": func(s *script, _ bool, args []string) {
		s.as = uws.Caller{}
		for _, a := range args {
			switch a {
			case "delete":
				s.as.Delete = true
			case "own":
				s.as.Own = true
			case "admin":
				s.as.Admin = true
			default:
				s.as.Name = a
			}
		}
	},
	// set PROPERTY VALUE
	"set": func(s *script, not bool, args []string) {
		_, err := s.svc.SetQueue(context.Background(), "q", func(i *home.QueueInfo) (err error) {
			switch name, value := args[0], args[1]; name {
			case "paused":
				if i.Paused = s.clock(); value == "false" {
					i.Paused = time.Time{}
				}
			case "closed":
				i.Closed = value == "true"
			case "maxAttempts":
				i.MaxAttempts, err = strconv.Atoi(value)
			case "cullingSize":
				i.CullingSize, err = strconv.ParseInt(value, 10, 64)
			case "limits":
				i.Limits, err = queuejob.ParseLimits(value)
			default:
				err = home.PropertyNamed(name).Set(i, value)
			}
			return err
		})
		if (err != nil) != not {
			s.ts.Fatalf("got %v", err)
		}
	},
	// submit OWNER submits a job by other ways and sets JOB
	"submit": func(s *script, _ bool, args []string) {
		sub := s.q.Begin()
		d, err := sub.Add(queuejob.Meta{MediaType: "text/x-work", Sidecar: "any text", Owner: args[0]})
		s.ts.Check(err)
		d.Write([]byte("work"))
		jobs, err := sub.Commit(context.Background())
		s.ts.Check(err)
		s.ts.Setenv("JOB", "async/"+jobs[0].ID.String())
	},
	// take [SIDECAR] prints file name and size
	"take": func(s *script, _ bool, args []string) {
		if s.taken = s.world.take(); len(args) > 0 && s.taken.Sidecar != args[0] {
			s.ts.Fatalf("got sidecar %q", s.taken.Sidecar)
		}
		fmt.Fprintln(s.ts.Stdout(), s.taken.Filename, s.taken.Size)
	},
	// files prints the files in the payload of the job taken last
	"files": func(s *script, _ bool, _ []string) {
		payload, err := s.q.Payload(s.taken.ID)
		s.ts.Check(err)
		defer payload.Close()
		_, attrs, err := mime.ParseMediaType(s.taken.Type())
		s.ts.Check(err)
		form, err := multipart.NewReader(payload, attrs["boundary"]).ReadForm(1 << 20)
		s.ts.Check(err)
		for _, name := range slices.Sorted(maps.Keys(form.File)) {
			fmt.Fprintln(s.ts.Stdout(), name, form.File[name][0].Filename, form.File[name][0].Size)
		}
	},
	// upload STATUS WHERE [NAME=VALUE | NAME@FILE]… sets AT to the Location
	"upload": func(s *script, _ bool, args []string) {
		status, err := strconv.Atoi(args[0])
		s.ts.Check(err)
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		for _, a := range args[2:] {
			if name, file, ok := strings.Cut(a, "@"); ok {
				p, _ := m.CreateFormFile(name, file)
				io.WriteString(p, s.ts.ReadFile(file))
			} else {
				name, value, _ := strings.Cut(a, "=")
				m.WriteField(name, lines(value))
			}
		}
		m.Close()
		at, text := s.want(status, "POST", args[1], b.String(), "Content-Type", m.FormDataContentType())
		s.ts.Setenv("AT", s.below(at))
		io.WriteString(s.ts.Stdout(), text)
	},
	// repeat FILE N TEXT makes a file
	"repeat": func(s *script, _ bool, args []string) {
		n, err := strconv.Atoi(args[1])
		s.ts.Check(err)
		text, err := strconv.Unquote(`"` + args[2] + `"`)
		s.ts.Check(err)
		s.ts.Check(os.WriteFile(s.ts.MkAbs(args[0]), []byte(strings.Repeat(text, n)), 0o666))
	},
	// long NAME N sets NAME to a long text
	"long": func(s *script, _ bool, args []string) {
		n, err := strconv.Atoi(args[1])
		s.ts.Check(err)
		s.ts.Setenv(args[0], strings.Repeat("a", n))
	},
	// damage N NAME VALUE changes an element of the job file of a pending job, before
	// the next start; without NAME the file becomes VALUE
	"damage": func(s *script, _ bool, args []string) {
		s.damage(s.number(args[:1]), func(text string) string {
			if args[1] == "" {
				return args[2]
			}
			return regexp.MustCompile(`(?m)^`+args[1]+`:.*\n`).ReplaceAllString(text, "") + args[1] + ": " + args[2] + "\n"
		})
		s.ts.Setenv("URL", s.srv.URL)
	},
	// removequeue removes the queue after all that may be culled is
	"removequeue": func(s *script, not bool, _ []string) {
		s.world.cull()
		err := s.svc.RemoveQueue(context.Background(), "q")
		if not != errors.Is(err, queueledger.ErrNotEmpty) || !not && err != nil {
			s.ts.Fatalf("got %v", err)
		}
	},
	"makequeue": func(s *script, _ bool, _ []string) { s.makeQueue() },
	// security [anonymous] [users]
	"security": func(s *script, _ bool, args []string) {
		s.security = uws.Security{Anonymous: slices.Contains(args, "anonymous"), Users: slices.Contains(args, "users")}
	},
	// next takes a job for good, if there is one
	"next": func(s *script, not bool, _ []string) {
		if _, err := s.q.Next(context.Background(), "w"); (err != nil) != not {
			s.ts.Fatalf("got %v", err)
		}
	},
	// finish OUTCOME MESSAGE [RESULT…] concludes the job taken last
	"finish": func(s *script, not bool, args []string) {
		c := queuejob.Conclusion{Message: lines(args[1])}
		switch args[0] {
		case "completed":
			c.Outcome = queuejob.Completed
		case "failed":
			c.Outcome = queuejob.Failed
		case "transient":
			c.Outcome, c.Transient = queuejob.Failed, true
		}
		if not {
			if _, err := s.q.Conclude(context.Background(), s.taken.ID, s.taken.Token, c); err == nil {
				s.ts.Fatalf("a late report was taken")
			}
			return
		}
		s.world.finish(s.taken, c, args[2:]...)
	},
	"hold": func(s *script, _ bool, args []string) {
		_, err := s.q.Hold(context.Background(), s.number(args), "no licence")
		s.ts.Check(err)
	},
	"release": func(s *script, _ bool, args []string) {
		_, err := s.q.Release(context.Background(), s.number(args))
		s.ts.Check(err)
	},
	"requeue": func(s *script, _ bool, args []string) {
		_, err := s.q.Requeue(context.Background(), s.number(args))
		s.ts.Check(err)
	},
	"requeueend": func(s *script, _ bool, args []string) {
		_, err := s.q.RequeueEnd(context.Background(), s.number(args))
		s.ts.Check(err)
	},
	"delete": func(s *script, _ bool, args []string) {
		_, err := s.q.Delete(context.Background(), s.number(args))
		s.ts.Check(err)
	},
	// sleep DURATION
	"sleep": func(s *script, _ bool, args []string) {
		d, err := time.ParseDuration(args[0])
		s.ts.Check(err)
		s.world.sleep(d)
	},
	"tick":   func(s *script, _ bool, _ []string) { s.world.tick() },
	"expire": func(s *script, _ bool, _ []string) { s.ts.Check(s.svc.Expire(context.Background())) },
	"restart": func(s *script, _ bool, _ []string) {
		s.close()
		s.open(nil)
		s.ts.Setenv("URL", s.srv.URL)
	},
	// events KIND… since the last events
	"events": func(s *script, _ bool, args []string) {
		s.same("events", s.told(s.seq), slices.Clip(append([]string(nil), args...)))
		s.seq = s.q.Seq()
	},
	// cull JOB… culls by the thresholds of the queue
	"cull": func(s *script, _ bool, args []string) {
		var got []string
		for c, err := range s.svc.Cull(context.Background(), queuefs.CullOptions{}) {
			s.ts.Check(err)
			got = append(got, fmt.Sprint(int64(c.Job)))
		}
		s.same("culled", got, append([]string(nil), args...))
	},
	// spared BOOL… says which jobs culling leaves alone, from the first on
	"spared": func(s *script, _ bool, args []string) {
		for i, want := range args {
			if got := s.world.spared(queuejob.ID(i + 1)); fmt.Sprint(got) != want {
				s.ts.Fatalf("job %d: got %v", i+1, got)
			}
		}
	},
	// results N is how many the job taken last has
	"results": func(s *script, _ bool, args []string) {
		j, err := s.q.Job(s.taken.ID)
		s.ts.Check(err)
		s.same("results", []string{fmt.Sprint(len(j.Results))}, args)
	},
	// due DATE N
	"due": func(s *script, _ bool, args []string) {
		at, err := time.Parse(time.DateOnly, args[0])
		s.ts.Check(err)
		got, err := s.q.Due(context.Background(), at, 100)
		s.ts.Check(err)
		s.same("due", []string{fmt.Sprint(len(got))}, args[1:])
	},
	// escape NAME TEXT sets NAME to a text as it stands in a form
	"escape": func(s *script, _ bool, args []string) { s.ts.Setenv(args[0], url.QueryEscape(lines(args[1]))) },
	// left N is how many temporary files there are
	"left": func(s *script, _ bool, args []string) {
		s.same("temporary files", []string{fmt.Sprint(len(s.spooled()))}, args)
	},
}

package rest_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// TestScripts runs the scripts in testdata/script. Each begins with a site at
// http://q.test/ that has the empty queue "jobs" and a clock that stands still at
// 2026-01-02T03:04:05Z. The commands are:
//
//	GET path option… => status [text…]    and so on for every method: sends a request;
//	                                      the body of the answer contains the texts
//	says line…        the body of the last answer has these lines; ! says: no line begins so
//	has text…         the body contains the texts; ! has: none of them
//	body text         is the body
//	header name value…  are the values of a header of the last answer; ! header name: it has none
//	forms path text… ! text…  gets a state in every form: it has the first texts, not the others
//	parts type text…  are the parts of a multipart answer
//	part n name value   is a header of a part, counted from 0
//	chooses numbers change option…  the change of many jobs, called dry, is of these
//	lists numbers query  the pages of the list of jobs have these
//	lease n             sets $LEASE to that of a part
//	counts p c d      are the jobs that are pending, consumed and deleted
//	site limit=n…     begins again with a new site and the given options
//	files             begins again with a site that may fetch the files in src, from $SRC
//	turn duration     turns the clock on, and ends the leases that are over
//	checkpoint        writes the files of all jobs
//	write path text   writes a file of the home, behind the back of the service
//
// The options of a request are headers, as Name:value, and
//
//	-d text  a body    -f file  a body in a file
//	-F name=value  a field of a form   -F name@filename=text  a file of a form
//	-P header  a header of the part that follows
//
// In all arguments \r, \n, \t, \0 and \\ stand for themselves, and <x*5> for xxxxx (any text). An
// answer is in the file "answer"; it sets $LEASE, $ETAG and $NEXT, the path of the next page. $J1 to $J12 are jobs.
//
// A request that is refused (4xx) is sent again in another form of state, the next one in
// turn, or in all of them with FORMS=all. The answers must be the same, and the queue as it was. No error may be logged but those that "logged text"
// expects, each with the text.
func TestScripts(t *testing.T) {
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"} {
		commands[method] = func(ts *testscript.TestScript, _ bool, args []string) {
			play(ts).request(ts, method, unescapeAll(args))
		}
	}
	for name, do := range map[string]func(*script, *testscript.TestScript, bool, []string){
		"says": (*script).says, "has": (*script).has, "body": (*script).body, "forms": (*script).forms, "header": (*script).header,
		"parts": (*script).parts, "part": (*script).part, "lease": (*script).lease, "chooses": (*script).chooses, "lists": (*script).lists,
		"counts": (*script).counts, "site": (*script).begin,
		"files": (*script).files, "turn": (*script).turn, "checkpoint": (*script).checkpoint, "write": (*script).write, "logged": (*script).wasLogged,
	} {
		commands[name] = func(ts *testscript.TestScript, neg bool, args []string) { do(play(ts), ts, neg, unescapeAll(args)) }
	}
	testscript.Run(t, testscript.Params{
		Dir:             "testdata/script",
		ContinueOnError: true,
		UpdateScripts:   *update,
		Cmds:            commands,
		Setup: func(env *testscript.Env) error {
			s := &script{t: env.T().(testing.TB), dir: env.WorkDir}
			env.Values[scriptKey{}] = s
			env.Defer(func() { s.quiet() })
			for n := range 13 {
				env.Setenv(fmt.Sprint("J", n), job.ID(n).String())
			}
			s.renew(rest.Options{})
			return nil
		},
	})
}

var update = flag.Bool("update", false, "rewrite the bodies in the scripts")

type scriptKey struct{}

// A script is the state of a script that runs.
type script struct {
	t     testing.TB
	dir   string
	site  *site
	clock *dial
	last  answer

	refused int // requests
}

func play(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

func (s *script) renew(o rest.Options) {
	s.quiet()
	s.clock = &dial{}
	o.Now = s.clock.now
	s.site = newServiceWith(s.t, queuefs.Options{Now: s.clock.now}).serve(o)
	s.site.svc.SetBaseURI("http://q.test/")
}

// quiet fails the test if an error was logged.
func (s *script) quiet() {
	if s.site == nil {
		return
	}
	if errs := s.site.logged.all(); len(errs) > 0 {
		s.t.Errorf("logged: %v", errs)
	}
}

var repeated = regexp.MustCompile(`<([^<>]+)\*(\d+)>`)

func unescapeAll(args []string) []string {
	plain := make([]string, len(args))
	for i, a := range args {
		a = strings.NewReplacer(`\r`, "\r", `\n`, "\n", `\t`, "\t", `\0`, "\x00", `\\`, `\`).Replace(a)
		plain[i] = repeated.ReplaceAllStringFunc(a, func(m string) string {
			found := repeated.FindStringSubmatch(m)
			n, _ := strconv.Atoi(found[2])
			return strings.Repeat(found[1], n)
		})
	}
	return plain
}

var headerOption = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):`)

func (s *script) request(ts *testscript.TestScript, method string, args []string) {
	arrow := slices.Index(args, "=>")
	if arrow < 1 || arrow+1 >= len(args) {
		ts.Fatalf("usage: %s path option… => status [text…]", method)
	}
	path, options, status, texts := args[0], args[1:arrow], args[arrow+1], args[arrow+2:]
	var (
		body, partHeader []string
		header           []string
		fields           = newForm()
	)
	for len(options) > 0 {
		option := options[0]
		options = options[1:]
		if name := headerOption.FindStringSubmatch(option); name != nil {
			header = append(header, name[1], option[len(name[0]):])
			continue
		}
		if len(options) == 0 {
			ts.Fatalf("%s has no value", option)
		}
		value := options[0]
		options = options[1:]
		switch option {
		case "-d":
			body = append(body, value)
		case "-f":
			body = append(body, os.Expand(ts.ReadFile(value), ts.Getenv))
		case "-P":
			partHeader = append(partHeader, value)
		case "-F":
			name, content, _ := strings.Cut(value, "=")
			disposition := `Content-Disposition: form-data; name="` + name + `"`
			if field, filename, ok := strings.Cut(name, "@"); ok {
				disposition = `Content-Disposition: form-data; name="` + field + `"; filename="` + filename + `"`
			}
			fields.add(content, append([]string{disposition}, partHeader...)...)
			partHeader = nil
		default:
			ts.Fatalf("unknown option %s", option)
		}
	}
	if fields.Len() > 0 {
		body = append([]string{fields.end()}, body...)
		header = append(header, "Content-Type", "multipart/form-data; boundary=b0undary")
	}
	whole := strings.Join(body, "")
	before := s.site.q.Seq()
	s.last = s.site.do(method, path, whole, header...)
	s.environ(ts)
	ts.Check(os.WriteFile(ts.MkAbs("answer"), []byte(s.last.body), 0o666))
	if got := strconv.Itoa(s.last.StatusCode); got != status {
		ts.Fatalf("got status %s, want %s\n%s", got, status, s.last.body)
	}
	refused := s.last.StatusCode/100 == 4
	told := s.last.body
	if refused && method != http.MethodHead {
		told = s.last.exception(s.t)
	}
	for _, text := range texts {
		if !strings.Contains(told, text) {
			ts.Fatalf("no %q in\n%s", text, told)
		}
	}
	if refused && method != http.MethodHead && !slices.Contains(header, "Accept") {
		forms := errorForms
		if ts.Getenv("FORMS") != "all" {
			at := s.refused % len(forms)
			forms = forms[at : at+1]
		}
		s.refused++
		s.refusedInForms(ts, forms, method, path, whole, told, header)
		if got := s.site.q.Seq(); got != before {
			ts.Fatalf("the queue has event %d, before the request %d", got, before)
		}
	}
}

var errorForms = []state.Form{state.JSON, state.ANVL, state.Turtle, state.XHTML, state.XML, state.SOIF, state.HTML}

// refusedInForms sends a request that was refused again, in other forms. A form in the
// query counts more, and an unknown one there is the fault itself.
func (s *script) refusedInForms(ts *testscript.TestScript, forms []state.Form, method, path, body, told string, header []string) {
	inQuery := regexp.MustCompile(`[?&](t|responseForm)=`).MatchString(path)
	for _, form := range forms {
		a := s.site.do(method, path, body, append(slices.Clone(header), "Accept", form.MediaType())...)
		if got := a.exception(s.t); a.StatusCode != s.last.StatusCode || got != told || !inQuery && a.Header.Get("Content-Type") != form.MediaType() {
			ts.Fatalf("as %v: got %s %s %q, want %s %q", form, a.Status, a.Header.Get("Content-Type"), got, s.last.Status, told)
		}
		if a.Header.Get("Vary") != "Accept" || a.Header.Get("Etag") != "" || a.Header.Get("Location") != "" {
			ts.Fatalf("as %v: header of an error: %v", form, a.Header)
		}
	}
}

var leaseField = regexp.MustCompile(`<input type="hidden" name="lease" value="([^"]+)" />`)

func (s *script) environ(ts *testscript.TestScript) {
	lease := s.last.Header.Get("Cutie-Lease")
	if inPage := leaseField.FindStringSubmatch(s.last.body); inPage != nil {
		lease = inPage[1]
	}
	for name, value := range map[string]string{"LEASE": lease, "ETAG": s.last.Header.Get("Etag")} {
		if value != "" {
			ts.Setenv(name, value)
		}
	}
	next, _, _ := strings.Cut(s.last.Header.Get("Link"), `>; rel="next"`)
	ts.Setenv("NEXT", strings.TrimPrefix(next, "<http://q.test"))
}

func (s *script) says(ts *testscript.TestScript, neg bool, lines []string) {
	all := strings.Split(s.last.body, "\n")
	for _, line := range lines {
		switch {
		case neg && slices.ContainsFunc(all, func(l string) bool { return strings.HasPrefix(l, line) }):
			ts.Fatalf("a line begins with %q in\n%s", line, s.last.body)
		case !neg && !slices.Contains(all, line):
			ts.Fatalf("no line %q in\n%s", line, s.last.body)
		}
	}
}

func (s *script) has(ts *testscript.TestScript, neg bool, texts []string) {
	for _, text := range texts {
		if strings.Contains(s.last.body, text) == neg {
			ts.Fatalf("%q in the body: %v, want %v\n%s", text, neg, !neg, s.last.body)
		}
	}
}

func (s *script) body(ts *testscript.TestScript, _ bool, args []string) {
	if s.last.body != strings.Join(args, "") {
		ts.Fatalf("got body %.1000q, want %.1000q", s.last.body, strings.Join(args, ""))
	}
}

func (s *script) forms(ts *testscript.TestScript, _ bool, args []string) {
	for _, form := range []state.Form{state.JSON, state.ANVL, state.Turtle, state.XHTML, state.XML, state.SOIF} {
		a, missing := s.site.do("GET", args[0], "", "Accept", form.MediaType()), false
		for _, text := range args[1:] {
			if text == "!" {
				missing = true
			} else if strings.Contains(a.body, text) == missing || a.StatusCode != http.StatusOK {
				ts.Fatalf("as %v: %q in the body: %v\n%s", form, text, missing, a.body)
			}
		}
	}
}

func (s *script) header(ts *testscript.TestScript, neg bool, args []string) {
	if got := s.last.Header.Values(args[0]); !slices.Equal(got, args[1:]) || neg && len(args) > 1 {
		ts.Fatalf("%s: got %q, want %q", args[0], got, args[1:])
	}
}

func (s *script) parts(ts *testscript.TestScript, _ bool, args []string) {
	var got []string
	for _, p := range s.last.parts(s.t, args[0]) {
		got = append(got, p.body)
	}
	if !slices.Equal(got, args[1:]) {
		ts.Fatalf("got parts %.1000q, want %.1000q", got, args[1:])
	}
}

func (s *script) part(ts *testscript.TestScript, _ bool, args []string) {
	if got := s.partHeader(ts, args[0])[args[1]]; !slices.Equal(got, args[2:]) {
		ts.Fatalf("part %s: %s: got %q, want %q", args[0], args[1], got, args[2:])
	}
}

// numbers returns those of the jobs in the lines that begin so.
func (s *script) numbers(begin string) string {
	var all []string
	for line := range strings.Lines(s.last.body) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), begin); ok {
			all = append(all, strings.TrimLeft(id[strings.LastIndexByte(id, '/')+1:], "j0"))
		}
	}
	return strings.Join(all, " ")
}

func (s *script) chooses(ts *testscript.TestScript, _ bool, args []string) {
	s.request(ts, "POST", append([]string{"/" + args[1] + "&dry&t=anvl"}, append(args[2:], "=>", "200")...))
	if got := s.numbers("chosenJobState: "); got != args[0] {
		ts.Fatalf("got %q, want %q", got, args[0])
	}
	if strings.Contains(s.last.body, "moreJobs: true") != strings.Contains(args[1], "limit=") {
		ts.Fatalf("more changes:\n%s", s.last.body)
	}
}

func (s *script) lists(ts *testscript.TestScript, _ bool, args []string) {
	var got []string
	for path := "/state/jobs?" + strings.Join(args[1:], "&"); path != "" && len(got) < 20; {
		s.request(ts, "GET", []string{path, "Accept:text/x-anvl", "=>", "200"})
		begin := "jobState: "
		if path = ts.Getenv("NEXT"); strings.Contains(args[len(args)-1], "detail") {
			begin = "identifier: j"
		} else if _, next, more := strings.Cut(s.last.body, "\njobsNext: http://q.test"); more {
			path, _, _ = strings.Cut(next, "\n")
		}
		if jobs := s.numbers(begin); jobs != "" {
			got = append(got, jobs)
		}
	}
	if all := strings.Join(got, " "); all != args[0] {
		ts.Fatalf("got %q, want %q", all, args[0])
	}
}

func (s *script) lease(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv("LEASE", s.partHeader(ts, args[0]).Get("Cutie-Lease"))
}

func (s *script) partHeader(ts *testscript.TestScript, number string) textproto.MIMEHeader {
	media, _, _ := strings.Cut(s.last.Header.Get("Content-Type"), ";")
	n, err := strconv.Atoi(number)
	all := s.last.parts(s.t, media)
	if err != nil || n >= len(all) {
		ts.Fatalf("no part %s of %d", number, len(all))
	}
	return all[n].header
}

func (s *script) counts(ts *testscript.TestScript, _ bool, args []string) {
	n := s.site.counts()
	if got, want := fmt.Sprint(n), fmt.Sprint(args); got != want {
		ts.Fatalf("jobs pending, consumed, deleted: got %s, want %s", got, want)
	}
}

func (s *script) begin(ts *testscript.TestScript, _ bool, args []string) {
	s.renew(s.options(ts, args))
}

func (s *script) files(ts *testscript.TestScript, _ bool, args []string) {
	src := newSource(s.t, nil)
	src.handle = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/x-source")
		http.ServeFile(w, r, filepath.Join(s.dir, "src", filepath.Clean("/"+r.URL.Path)))
	}
	ts.Setenv("SRC", src.url)
	o := s.options(ts, args)
	o.Fetch = src.client(s.t)
	s.renew(o)
}

func (s *script) options(ts *testscript.TestScript, args []string) (o rest.Options) {
	for _, a := range args {
		name, text, _ := strings.Cut(a, "=")
		n, err := strconv.Atoi(text)
		ts.Check(err)
		switch name {
		case "MaxBody":
			o.MaxBody = int64(n)
		case "MaxSidecar":
			o.MaxSidecar = n
		case "MaxParts":
			o.MaxParts = n
		case "MaxWait":
			o.MaxWait = time.Duration(n) * time.Second
		case "BulkTime": // nanoseconds
			o.BulkTime = time.Duration(n)
		case "Lines":
			o.Batch.Lines = n
		case "Octets":
			o.Batch.Octets = int64(n)
		case "Includes":
			o.Batch.Includes = n
		case "Depth":
			o.Batch.Depth = n
		default:
			ts.Fatalf("unknown option %s", a)
		}
	}
	return o
}

func (s *script) turn(ts *testscript.TestScript, _ bool, args []string) {
	by, err := time.ParseDuration(args[0])
	ts.Check(err)
	s.clock.turn(by)
	ts.Check(s.site.svc.Expire(ctx))
}

func (s *script) wasLogged(ts *testscript.TestScript, _ bool, args []string) {
	errs := s.site.logged.take()
	if len(errs) == 0 {
		ts.Fatalf("nothing was logged")
	}
	for _, err := range errs {
		if !strings.Contains(err.Error(), args[0]) {
			ts.Fatalf("logged: %v", err)
		}
	}
}

func (s *script) checkpoint(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(s.site.svc.Checkpoint(ctx))
	s.site.wantNoTemps()
}

func (s *script) write(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(filepath.Join(s.site.svc.Dir(), args[0]), []byte(args[1]), 0o666))
}

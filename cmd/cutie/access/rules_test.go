package access_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"cutie/cmd/cutie/access"
)

func ruleFor(t *testing.T, method, path string) (access.Rule, string) {
	t.Helper()
	u, err := url.ParseRequestURI(path)
	if err != nil {
		t.Fatal(err)
	}
	return access.RuleFor(method, u)
}

// need is a rule as text.
func need(r access.Rule) string {
	if r.Right == 0 {
		return "nothing"
	}
	return r.Right.String() + [...]string{access.Named: "", access.Some: " some", access.Every: " every", access.Body: " by body", access.Own: " or submit"}[r.Of]
}

func TestWhatRequestsNeed(t *testing.T) {
	for request, want := range map[string]string{
		"GET /livez":                               "nothing",
		"HEAD /readyz":                             "nothing",
		"POST /livez":                              "admin every",
		"GET /help/submitJob":                      "nothing",
		"GET /":                                    "read some",
		"POST /":                                   "admin every",
		"GET /state":                               "read some",
		"POST /state":                              "admin every",
		"HEAD /state/q":                            "read q",
		"GET /state/a%2fb":                         "read a/b",
		"PUT /state/q":                             "admin q",
		"POST /state/q":                            "admin q",
		"DELETE /state/q":                          "admin q",
		"PATCH /state/q":                           "admin every",
		"GET /state/q/j000000000001":               "read q",
		"GET /content/q":                           "read q",
		"POST /content/q":                          "submit q",
		"POST /content/q/":                         "admin every",
		"DELETE /content/q/j":                      "delete q",
		"DELETE /content/q":                        "admin every",
		"POST /consume/q":                          "consume q",
		"GET /consume/q":                           "admin every",
		"POST /requeue/q/j":                        "consume q",
		"POST /delete/q/j":                         "delete q",
		"POST /hold/q/j":                           "delete q",
		"POST /release/q/j":                        "delete q",
		"POST /lease/q/j":                          "consume q",
		"PUT /result/q/j/name":                     "consume q",
		"GET /result/q/j/name":                     "read q",
		"POST /outcome/q/j":                        "consume q",
		"GET /batch/q/b1":                          "read q",
		"GET /queues/q/payload/j":                  "read q",
		"GET /queues/q/queue-info.txt":             "read q",
		"GET /queues/q":                            "admin every",
		"GET /events":                              "read every",
		"GET /events/q":                            "read q",
		"GET /metrics":                             "read every",
		"GET /schema/state.xsd":                    "read some",
		"GET /hub":                                 "admin every",
		"POST /hub":                                "read by body",
		"GET /uws/q/async":                         "read or submit q",
		"GET /uws/q/async/j":                       "read or submit q",
		"GET /uws/q/async/j/results/result":        "read or submit q",
		"GET /uws/q/sync/j":                        "read or submit q",
		"GET /uws/q/capabilities":                  "read or submit q",
		"GET /uws/q/availability":                  "read or submit q",
		"GET /uws/q":                               "admin every",
		"GET /uws/q/":                              "admin every",
		"GET /uws/q/other":                         "admin every",
		"POST /uws/q/async":                        "submit q",
		"POST /uws/q/async/j/phase":                "submit q",
		"DELETE /uws/q/async/j":                    "submit q",
		"POST /uws/q/async/j":                      "submit q",
		"GET /uws/q/sync":                          "submit q",
		"HEAD /uws/q/sync":                         "submit q",
		"GET /uws/q/sync/":                         "admin every",
		"GET /uws/q/sync//":                        "admin every",
		"GET /uws/q/%73ync/":                       "admin every",
		"GET /uws/q/sync%2f":                       "admin every",
		"GET /uws/q//sync":                         "admin every",
		"POST /uws/q/sync/":                        "admin every",
		"POST /uws/q/async/":                       "admin every",
		"POST /uws/q/async/j/":                     "admin every",
		"DELETE /uws/q/async/j/":                   "admin every",
		"POST /uws/q/async/j/phase/":               "admin every",
		"POST /consume/q/":                         "admin every",
		"GET /state/q/":                            "admin every",
		"DELETE /state/q/":                         "admin every",
		"GET /rdm/incoming":                        "read some",
		"POST /rdm/incoming":                       "read by body",
		"PUT /rdm/incoming":                        "admin every",
		"POST /rdm/incoming/x":                     "admin every",
		"GET /.well-known/resourcesync":            "read some",
		"GET /.well-known/resourcesync/part-1.xml": "read some",
		"GET /.well-known/resourcesync/q/pending/resourcelist.xml": "read q",
		"GET /.well-known/%72esourcesync/q/pending/x":              "read q",
		"GET /.well-known%2fresourcesync/q/pending/x":              "admin every",
		"GET /.well-known/other":                                   "admin every",
		"GET /state//q":                                            "admin every",
		"GET //state/q":                                            "admin every",
		"GET /state/../content/q":                                  "admin every",
		"GET /%73tate/q":                                           "read q",
		"GET /unknown":                                             "admin every",
		"OPTIONS /state/q":                                         "admin every",
		"CONNECT /state/q":                                         "admin every",
	} {
		method, path, _ := strings.Cut(request, " ")
		rule, queue := ruleFor(t, method, path)
		got := need(rule)
		if rule.Right != 0 && (rule.Of == access.Named || rule.Of == access.Own) {
			got += " " + queue
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", request, got, want)
		}
	}
}

// Every route of the protocol is in the table on purpose, and a path that names
// a queue is decided for that queue.
func TestEveryRouteHasARule(t *testing.T) {
	for pattern, methods := range restRoutes(t) {
		path := strings.NewReplacer("{queue}", "the-queue", "{dir}", "pending", "{", "", "...}", "", "}", "").Replace(pattern)
		for _, method := range methods {
			rule, queue := ruleFor(t, method, path)
			switch {
			case rule.Path == "":
				t.Errorf("%s %s has no rule", method, pattern)
			case strings.Contains(pattern, "{queue}") && (rule.Of != access.Named || queue != "the-queue"):
				t.Errorf("%s %s is decided for queue %q, scope %d", method, pattern, queue, rule.Of)
			case method != "GET" && rule.Right < access.Submit && rule.Path != "/hub":
				t.Errorf("%s %s needs %v only", method, pattern, rule.Right)
			}
		}
	}
}

// A slash at the end makes no path one that needs less.
func TestSlashAtTheEndNeedsNoLess(t *testing.T) {
	paths := map[string][]string{}
	for pattern, methods := range restRoutes(t) {
		paths[pattern] = methods
	}
	for _, r := range access.Rules {
		paths[r.Path] = append(paths[r.Path], r.Method)
	}
	names := strings.NewReplacer("{queue}", "the-queue", "{", "", "...}", "", "}", "")
	for pattern, methods := range paths {
		for _, method := range methods {
			plain, _ := ruleFor(t, method, names.Replace(pattern))
			for _, end := range []string{"/", "//", "%2f"} {
				rule, _ := ruleFor(t, method, names.Replace(pattern)+end)
				if pattern != "/" && rule.Right < plain.Right {
					t.Errorf("%s %s%s needs %s, and without %s", method, pattern, end, need(rule), need(plain))
				}
			}
		}
	}
}

// restRoutes reads the routes that package rest makes: calls of
// h.route(pattern, methods{method: …}).
func restRoutes(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../../../queuefs/rest/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v, want the files of package rest", files, err)
	}
	routes := map[string][]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "route" {
				return true
			}
			pattern, ok := call.Args[0].(*ast.BasicLit)
			table, ok2 := call.Args[1].(*ast.CompositeLit)
			if !ok || !ok2 {
				t.Fatalf("%s: a route that cannot be read here", name)
			}
			for _, e := range table.Elts {
				routes[unquote(t, pattern)] = append(routes[unquote(t, pattern)], unquote(t, e.(*ast.KeyValueExpr).Key.(*ast.BasicLit)))
			}
			return true
		})
	}
	if len(routes) < 11 {
		t.Fatalf("got %d routes, want all", len(routes))
	}
	return routes
}

func unquote(t *testing.T, l *ast.BasicLit) string {
	s, err := strconv.Unquote(l.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

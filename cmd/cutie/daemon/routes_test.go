package daemon

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"cutie/queuefs/web"
)

// The description by OpenAPI has every route of a daemon with everything, with its right and
// the parameters of its path, and nothing else.
func TestEveryRouteIsDescribed(t *testing.T) {
	rows := table()
	text, err := description(&rows)()
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Paths map[string]map[string]struct {
			Summary     string   `json:"summary"`
			OperationID string   `json:"operationId"`
			Tags        []string `json:"tags"`
			Right       string   `json:"x-right"`
			Parameters  []struct{ Name, In string }
			Responses   map[string]any `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	used, ids := map[string]bool{}, map[string]string{}
	routes := 0
	for _, row := range rows {
		name := row.Method + " " + row.Path
		if used[name] = true; row.Serve == nil || strings.HasSuffix(row.Path, "/") && used[strings.TrimSuffix(name, "/")] {
			continue
		}
		words := []string{""}
		if m := regexp.MustCompile(`\{[a-z]+:([a-z.|-]+)\}`).FindStringSubmatch(row.Path); m != nil {
			words = strings.Split(m[1], "|")
		}
		for _, word := range words {
			path := regexp.MustCompile(`\{[a-z]+:[a-z.|-]+\}`).ReplaceAllString(row.Path, word)
			path = regexp.MustCompile(`:[^}]*\}`).ReplaceAllString(path, "}")
			op, ok := d.Paths[path][strings.ToLower(row.Method)]
			if !ok {
				t.Errorf("%s is not described at %s", name, path)
				continue
			}
			routes++
			if other := ids[op.OperationID]; other != "" {
				t.Errorf("%s and %s have the same operationId", name, other)
			}
			ids[op.OperationID] = name
			right := ""
			if row.Need.Right > 0 {
				right = row.Need.Right.String()
			}
			if op.Summary == "" || len(op.Tags) != 1 || op.Tags[0] == "" || op.Right != right || len(op.Responses) < 8 {
				t.Errorf("%s: got %+v", name, op)
			}
			inPath := 0
			for _, p := range op.Parameters {
				if p.In == "path" && strings.Contains(path, "{"+p.Name+"}") {
					inPath++
				}
			}
			if inPath != strings.Count(path, "{") {
				t.Errorf("%s: got the parameters %v", name, op.Parameters)
			}
		}
	}
	for name := range operations {
		if !used[name] {
			t.Errorf("%s is described, and is no route", name)
		}
	}
	described := 0
	for _, methods := range d.Paths {
		described += len(methods)
	}
	if described != routes {
		t.Errorf("got %d operations for %d routes", described, routes)
	}
	rows = append(rows, web.Route{Method: "GET", Path: "/new", Serve: atHome(nil)})
	if _, err := description(&rows)(); err == nil || !strings.Contains(err.Error(), "GET /new") {
		t.Errorf("a route without a description: got %v", err)
	}
}

func needOf(t *testing.T, method, path string) (web.Need, string) {
	t.Helper()
	u, err := url.ParseRequestURI(path)
	if err != nil {
		t.Fatal(err)
	}
	m := router.Find(method, u)
	return m.Need(), m.Queue()
}

var router = web.NewRouter(web.Plain, table()...)

// inWords is a need as text.
func inWords(n web.Need) string {
	if n.Right == 0 {
		return "nothing"
	}
	return n.Right.String() + [...]string{web.Named: "", web.Some: " some", web.Every: " every", web.Body: " by body", web.Own: " or submit", web.Use: " or any", web.Nothing: " every"}[n.Of]
}

func TestWhatRequestsNeed(t *testing.T) {
	for request, want := range map[string]string{
		"GET /livez":                               "nothing",
		"HEAD /readyz":                             "nothing",
		"POST /livez":                              "admin every",
		"GET /help/submitJob":                      "nothing",
		"GET /":                                    "read by body",
		"GET /own/q":                               "read or any q",
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
		"GET /live":                                "read some",
		"GET /live/q":                              "read q",
		"GET /history":                             "read every",
		"GET /history/q":                           "read q",
		"GET /workers":                             "read some",
		"GET /workers/q":                           "read q",
		"GET /find/q":                              "read q",
		"GET /bulk/q":                              "read q",
		"POST /bulk/q":                             "read q",
		"GET /batches/q":                           "read q",
		"GET /batches/q/b":                         "read q",
		"GET /mirrors":                             "read some",
		"GET /manual":                              "nothing",
		"GET /manual/tour":                         "nothing",
		"POST /audit/q":                            "admin q",
		"POST /takeover":                           "admin every",
		"GET /owner":                               "read some",
		"GET /read":                                "read some",
		"GET /read/q/replica/changelist.xml":       "read q",
		"GET /read/q/replica":                      "admin every",
		"GET /dashboard/live.js":                   "nothing",
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
		"GET /debug/pprof/profile":                 "admin every",
		"GET /schema/state.xsd":                    "read some",
		"GET /hub":                                 "admin every",
		"POST /hub":                                "read by body",
		"GET /uws/q/async":                         "read or submit q",
		"GET /uws/q/async/j":                       "read or submit q",
		"GET /uws/q/async/j/results/result":        "read or submit q",
		"GET /uws/q/sync/j":                        "read or submit q",
		"GET /uws/q/capabilities":                  "nothing",
		"GET /uws/q/availability":                  "nothing",
		"GET /uws/q":                               "admin every",
		"GET /uws/q/":                              "admin every",
		"GET /uws/q/other":                         "admin every",
		"POST /uws/q/async":                        "submit q",
		"POST /uws/q/async/j/phase":                "submit q",
		"DELETE /uws/q/async/j":                    "submit q",
		"POST /uws/q/async/j":                      "submit q",
		"GET /uws/q/sync":                          "submit q",
		"HEAD /uws/q/sync":                         "submit q",
		"GET /uws/q/sync/":                         "submit q",
		"GET /uws/q/sync//":                        "admin every",
		"GET /uws/q/%73ync/":                       "submit q",
		"GET /uws/q/sync%2f":                       "admin every",
		"GET /uws/q//sync":                         "admin every",
		"POST /uws/q/sync/":                        "submit q",
		"POST /uws/q/async/":                       "submit q",
		"POST /uws/q/async/j/":                     "submit q",
		"DELETE /uws/q/async/j/":                   "submit q",
		"POST /uws/q/async/j/phase/":               "submit q",
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
		need, queue := needOf(t, method, path)
		got := inWords(need)
		if need.Right != 0 && (need.Of == web.Named || need.Of == web.Own || need.Of == web.Use) {
			got += " " + queue
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", request, got, want)
		}
	}
}

// A path that names a queue is decided for that queue, and nobody changes
// anything with the right to read.
func TestRoutesNeedWhatTheyDo(t *testing.T) {
	for _, row := range table() {
		path := names.Replace(row.Path)
		need, queue := needOf(t, row.Method, path)
		switch {
		case need != row.Need && row.Need != web.Otherwise:
			t.Errorf("%s %s is decided by another row: got %s, want %s", row.Method, path, inWords(need), inWords(row.Need))
		case strings.Contains(row.Path, "{queue}") && need.Of != web.Nothing && (need.Of != web.Named && need.Of != web.Own && need.Of != web.Use || queue != "the-queue"):
			t.Errorf("%s %s is decided for queue %q, scope %d", row.Method, row.Path, queue, need.Of)
		case row.Method == "POST" && row.Path == "/bulk/{queue}": // a preview, with many names
		case row.Method != "GET" && need.Right < web.Submit && need.Of != web.Body:
			t.Errorf("%s %s needs %v only", row.Method, row.Path, need.Right)
		}
	}
}

var names = strings.NewReplacer("{queue}", "the-queue", "{part:capabilities|availability}", "capabilities", "{part:phase|executionduration|destruction|parameters}", "phase",
	"{part:quote|owner|error|results}", "quote", "{topic:change-notification.xml|framework-notification.xml}", "change-notification.xml",
	"{rest:.*}", "a/b/c/d", "{", "", "}", "")

// A slash at the end makes no path one that needs less.
func TestSlashAtTheEndNeedsNoLess(t *testing.T) {
	for _, row := range table() {
		if strings.HasSuffix(row.Path, "/") || row.Serve == nil {
			continue // a row without the slash has the same resource
		}
		path := names.Replace(row.Path)
		plain, _ := needOf(t, row.Method, path)
		for _, end := range []string{"/", "//", "%2f"} {
			if need, _ := needOf(t, row.Method, path+end); need.Right < plain.Right {
				t.Errorf("%s %s%s needs %s, and without %s", row.Method, path, end, inWords(need), inWords(plain))
			}
		}
	}
}

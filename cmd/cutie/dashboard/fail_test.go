package dashboard_test

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"testing"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
	"cutie/queuefs/uws"
	"cutie/queuefs/web"
)

// The page of an error says what was refused and why, and leads to pages open to its reader.
func TestPagesOfErrorsHaveAWayOut(t *testing.T) {
	at := string(statetest.Base)
	here, home, manual := at+"/state/ingest?t=xhtml", at+"/", at+"/manual"
	for _, tt := range []struct {
		name  string
		f     web.Failure
		may   []string
		title string
		says  []string
		links []string
	}{
		{"no user", web.Failure{Status: 401, Method: "GET", Path: "/"}, nil, "A name and a password are needed", nil, []string{manual, manual + "/access"}},
		{"no right", web.Failure{Status: 403, Method: "POST", Path: "/content/ingest"}, []string{"/", "/state/ingest"}, "You may not do this",
			[]string{"POST /content/ingest", "Nothing was changed."}, []string{home, manual, home, manual + "/access"}},
		{"no job", web.Failure{Status: 404, Method: "GET", Path: "/state/ingest/j000000000009", Queue: "ingest", Job: "j000000000009"}, []string{"/", "/state/ingest"}, "There is nothing here",
			nil, []string{home, here, manual, here}},
		{"conflict", web.Failure{Status: 409, Method: "POST", Path: "/hold/ingest/j000000000009", Queue: "ingest", Job: "j000000000009"}, []string{"/", "/state/ingest"}, "This does not fit the present state",
			[]string{"Nothing was changed."}, []string{home, here, manual, at + "/state/ingest/j000000000009?t=xhtml", here}},
		{"too much", web.Failure{Status: 429, Method: "POST", Path: "/content/ingest", Queue: "ingest", After: "90"}, nil, "Too many requests",
			[]string{"Another try can succeed in 90 s."}, []string{manual, manual + "/limits"}},
		{"fault", web.Failure{Status: 500, Method: "POST", Path: "/content/ingest"}, []string{"/"}, "Something is wrong with the service",
			nil, []string{home, manual, home, manual + "/operating#what-to-do-when"}},
		{"full disk", web.Failure{Status: 507, Method: "POST", Path: "/content/ingest"}, nil, "The disk of the service is full",
			[]string{"Nothing was changed.", "cutie cull"}, []string{manual, manual + "/operating#the-disk-is-nearly-full"}},
		{"unknown", web.Failure{Status: 418, Method: "GET", Path: `/"><script>`}, nil, "This request is not understood", []string{`GET /"><script>`}, []string{manual}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.Detail = `why & <how>`
			tt.f.May = func(method, path string) bool {
				return method == "GET" && (strings.HasPrefix(path, "/manual") || slices.Contains(tt.may, path))
			}
			d := state.OfException(state.Exception{Status: tt.f.Status, Detail: tt.f.Detail})
			d.Base = statetest.Base
			ofState := dashboard.Pages{}.State(nil, &d, rest.View{Failure: &tt.f})
			if got, err := statetest.Read(state.XHTML, d.Class, ofState); err != nil || got.Text("detail") != tt.f.Detail {
				t.Errorf("read back: got %+v, %v", got, err)
			}
			for name, text := range map[string][]byte{"state": ofState, "UWS": dashboard.Pages{}.UWS(&uws.Page{Base: statetest.Base, Body: &tt.f})} {
				p := parsePage(t, text)
				if want := append([]string{"#main"}, tt.links...); !slices.Equal(p.anchors, want) {
					t.Errorf("%s: got links %q, want %q", name, p.anchors, want)
				}
				for _, want := range append(tt.says, fmt.Sprintf(`<h1>%s <span class="badge bad">%d</span></h1>`, tt.title, tt.f.Status), tt.f.Detail) {
					if !strings.Contains(html.UnescapeString(string(text)), want) {
						t.Errorf("%s: %q is not in %s", name, want, text)
					}
				}
			}
		})
	}
}

// UWS answers everything that a queue rejects with 403.
func TestRefusalsOfUWSAreNotOnesOfRights(t *testing.T) {
	f := &web.Failure{Status: 403, Detail: "too many jobs", Method: "POST", Path: "/uws/ingest/async", Queue: "ingest"}
	text := string(dashboard.Pages{}.UWS(&uws.Page{Base: statetest.Base, Body: f}))
	if !strings.Contains(text, `<h1>The queue refuses this <span class="badge bad">403</span></h1>`) || strings.Contains(text, "cutie user") {
		t.Errorf("got %s", text)
	}
}

package dashboard_test

import (
	"slices"
	"strings"
	"testing"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs/state/statetest"
	"cutie/sitemap"
)

// A page of a document has words beside its terms, and no link to a resource deleted by its
// last entry.
func TestDocumentsAreShownInWords(t *testing.T) {
	base := string(statetest.Base)
	list := base + "/.well-known/resourcesync/q/replica/changelist.xml"
	d := &dashboard.Document{URI: list, Tree: base + "/.well-known/resourcesync", Pages: base + "/read",
		Head: sitemap.Head{Capability: sitemap.ChangeList, Links: []sitemap.Link{{Rel: "up", Href: base + "/up"}, {Rel: "odd", Href: base + "/odd"}, {Rel: "hub", Href: base + "/hub"}}},
		Entries: []sitemap.Entry{{Loc: base + "/a", Change: sitemap.Created}, {Loc: base + "/b", Change: sitemap.Deleted}, {Loc: base + "/a", Change: sitemap.Deleted},
			{Loc: base + "/b", Change: sitemap.Created}, {Loc: base + "/n", Capability: sitemap.ChangeNotification}}}
	page := string(dashboard.Read(dashboard.Site{Base: statetest.Base}, d))
	var got []string
	for _, line := range strings.Split(page[strings.Index(page, "<h1>"):], "\n") {
		if strings.Contains(line, "<h1>") || strings.Contains(line, "<li>") || strings.HasPrefix(line, "<tr><td") {
			line, _, _ = strings.Cut(line, `<td class="t"`)
			got = append(got, line)
		}
	}
	link := func(path string) string { return `<a href="` + base + path + `">` + path + `</a>` }
	want := []string{"<h1>Change List</h1>",
		`<ul><li>Above <span class="dim">(up)</span>: ` + link("/up") + `</li>`, `<li>odd: ` + link("/odd") + `</li>`,
		`<li>Hub for subscriptions <span class="dim">(hub)</span>: /hub</li>`,
		`<tr><td class="text">/a</td><td>created</td>`, `<tr><td class="text">` + link("/b") + `</td><td>deleted</td>`, `<tr><td class="text">/a</td><td>deleted</td>`,
		`<tr><td class="text">` + link("/b") + `</td><td>created</td>`,
		`<tr><td class="text">` + link("/n") + `</td><td>Messages about changes <span class="dim">(changelist-notification)</span></td>`}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

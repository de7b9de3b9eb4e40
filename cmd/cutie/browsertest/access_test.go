//go:build !race

package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// faults lists what keeps people from a page: fields without a label, headings out of order,
// images and links without a text, text outside of the parts of the page, elements out of
// reach of the keyboard, and text with a contrast below 4.5 to 1 (WCAG 2.2, 1.1.1, 1.3.1,
// 1.4.3, 2.1.1, 3.1.1).
const faults = `(() => {
	const found = [], name = (e) => e.outerHTML.slice(0, 120);
	if (!document.documentElement.lang) found.push('the page has no language');
	if (!document.title) found.push('the page has no title');
	for (const e of document.querySelectorAll('input:not([type=hidden]),select,textarea'))
		if (!e.labels.length && !e.getAttribute('aria-label')) found.push('no label: ' + name(e));
	// Published pages are valid XHTML 1.0, without roles.
	const plain = document.querySelector('link[rel=alternate][href$="about.json"]');
	if (!plain && document.querySelectorAll('[role=main]').length !== 1) found.push('no main part');
	for (const e of document.body.children)
		if (!plain && !e.matches('[role=main],[role=navigation],[role=contentinfo],[role=status],script')) found.push('outside of the parts of the page: ' + name(e));
	for (const e of document.querySelectorAll('.scroll'))
		if (e.scrollWidth > e.clientWidth && e.tabIndex !== 0 && !e.querySelector('a,button,input')) found.push('scrolls out of reach: ' + name(e));
	let level = 0;
	for (const e of document.querySelectorAll('h1,h2,h3,h4,h5,h6')) {
		if (+e.localName[1] > level + 1 || +e.localName[1] === 1 && level) found.push('heading out of order: ' + name(e));
		level = +e.localName[1];
	}
	if (!level) found.push('no heading');
	for (const e of document.querySelectorAll('img,svg')) if (!e.getAttribute('alt') && !(e.closest('[role=img]') ?? e).getAttribute('aria-label')) found.push('no text instead: ' + name(e));
	for (const e of document.querySelectorAll('a,button,summary')) if (!e.textContent.trim()) found.push('no text: ' + name(e));
	for (const e of document.querySelectorAll('a,button,summary,input:not([type=hidden]),select,textarea'))
		if (e.tabIndex !== 0) found.push('out of reach: ' + name(e));
	for (const e of document.querySelectorAll('table')) if (!e.querySelector('th')) found.push('a table without headers: ' + name(e));
	const channels = (color) => color.match(/[\d.]+/g).map(Number);
	const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => sum + part * (c[i] <= 10.31475 ? c[i] / 255 / 12.92 : ((c[i] / 255 + 0.055) / 1.055) ** 2.4), 0);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const c = channels(getComputedStyle(e).backgroundColor);
			if (c.length === 3 || c[3] > 0) return c;
		}
		return [255, 255, 255];
	};
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let t; (t = texts.nextNode()); ) {
		const e = t.parentElement;
		if (!t.data.trim() || !e.checkVisibility() || e.localName === 'option') continue;
		const a = light(channels(getComputedStyle(e).color)), b = light(behind(e));
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (contrast < 4.5) found.push('contrast ' + contrast.toFixed(2) + ': ' + name(e));
	}
	return found.join('\n');
})()`

// Every page can be read and used by everybody, by day and by night.
func TestBrowserPagesAreForEverybody(t *testing.T) {
	t.Parallel()
	d := startForBrowser(t)
	hostileJobs(t, d)
	body, header := form("lease", "600")
	d.send(t, "POST", "consume/evil", body, header...)
	b := browse(t, d.url)
	b.open("")
	b.do(chromedp.Evaluate[chromedp.Void](`{
		const pale = document.createElement('p');
		pale.textContent = 'pale';
		pale.style.color = '#999';
		document.querySelector('h1').after(document.createElement('img'), document.createElement('h4'), document.createElement('input'), pale);
	}`))
	bad := evaluated[string](b, faults)
	for _, want := range []string{"no label", "heading out of order", "no text instead", "contrast 2."} {
		if !strings.Contains(bad, want) {
			t.Fatalf("the check does not find %q in a bad page: %s", want, bad)
		}
	}
	for _, path := range []string{"", "state?t=xhtml", "state/evil?t=xhtml", "state/jobs?t=xhtml", "state/evil?status=pending&t=xhtml", "state/evil/j000000000001?t=xhtml",
		"state/evil/j000000000003?t=xhtml", "state/none?t=xhtml", "find/evil", "bulk/evil?status=pending&method=hold", "workers", "history", "failures/evil", "own/evil", "nosuch", "uws/evil/async?format=html", "uws/evil/async/j000000000002?format=html", "batches/evil", "mirrors",
		"manual", "manual/operating", "help?t=xhtml", "read", "read/evil/replica/changelist.xml", ".well-known/resourcesync/evil/replica/about.html"} {
		b.open(path)
		for _, scheme := range []string{"light", "dark"} {
			if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
				t.Fatal(err)
			}
			if got := evaluated[string](b, faults); got != "" {
				t.Errorf("%q, %s: %s", path, scheme, got)
			}
		}
	}
	b.fine("pages for everybody")
}

// A change is made, looked at, and undone with the keyboard alone, without scripts.
func TestBrowserChangesByKeyboardAreUndone(t *testing.T) {
	t.Parallel()
	d := startForBrowser(t)
	for i := range 3 {
		d.send(t, "POST", fmt.Sprintf("content/jobs?filename=scan-%d", i), "x")
	}
	b := browse(t, d.url)
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	held := func(n string) {
		t.Helper()
		if got := d.send(t, "GET", "state/jobs?limit=0&t=json", ""); !strings.Contains(got, `"numHeldJobs":`+n) {
			t.Fatalf("got %s, want %s jobs on hold", got, n)
		}
	}
	b.open("find/jobs")
	b.tabTo(`input[value=j000000000001]`, 60)
	b.do(chromedp.KeyEvent(" "))
	b.tabTo(`button[value=hold]`, 60)
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.querySelector('input[name=reason]') !== null`)
	b.tabTo(`fieldset button`, 60)
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.querySelector('form[action$="/bulk/jobs"] button') !== null`)
	held("1")
	b.tabTo(`form[action$="/bulk/jobs"] button`, 60)
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.querySelector('form[action*="/release/jobs"] button') !== null`)
	held("1")
	b.tabTo(`fieldset button`, 60)
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.body.textContent.includes('1 job was released.')`)
	held("0")
	b.fine("changes by keyboard")
}

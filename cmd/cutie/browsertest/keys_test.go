//go:build !race

package browsertest

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"cutie/testdata/processes"
)

// seen is what is wrong with the element in focus: out of sight, covered, or without a ring.
const seen = `(() => {
	const at = document.activeElement, box = at.getBoundingClientRect();
	const top = document.elementFromPoint(box.left + box.width / 2, box.top + Math.min(box.height / 2, 20));
	if (box.bottom <= 0 || box.top >= innerHeight || !top || !(at.contains(top) || top.contains(at))) return 'not to be seen';
	if (getComputedStyle(at).outlineStyle === 'none') return 'without a ring';
	return '';
})()`

// tabTo presses Tab until the element in focus is of the selector, at most limit times. Each
// element on the way has to be seen.
func (b *browser) tabTo(selector string, limit int) {
	b.t.Helper()
	var way []string
	for range limit {
		b.do(chromedp.KeyEvent(kb.Tab))
		name := evaluated[string](b, `document.activeElement.localName + ' ' + (document.activeElement.textContent || document.activeElement.name || '').trim().slice(0, 30)`)
		if bad := evaluated[string](b, seen); bad != "" {
			b.t.Errorf("%s: %s is %s", selector, name, bad)
		}
		if evaluated[bool](b, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
			return
		}
		way = append(way, name)
	}
	b.t.Fatalf("%s is not in focus after %d times Tab: %q", selector, limit, way)
}

// giveFile presses Enter on a field for files in focus, and answers its dialog with a new file.
func (b *browser) giveFile(name string) {
	b.t.Helper()
	must(b.t, os.WriteFile(name, []byte("text"), 0o600))
	opened := make(chan cdp.BackendNodeID, 1)
	if err := chromedp.Listen(b.ctx, func(event any) {
		if e, ok := event.(*page.EventFileChooserOpened); ok {
			opened <- e.BackendNodeID
		}
	}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := chromedp.Call(b.ctx, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: true}); err != nil {
		b.t.Fatal(err)
	}
	b.do(chromedp.KeyEvent(kb.Enter))
	select {
	case node := <-opened:
		if _, err := chromedp.Call(b.ctx, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: []string{name}, BackendNodeID: node}); err != nil {
			b.t.Fatal(err)
		}
	case <-time.After(processes.Limit):
		b.t.Fatal("no dialog for files is open")
	}
}

// A failed job is found and run again by the keyboard alone, in few keys, while the page
// follows the queue.
func TestBrowserNeedsNoMouse(t *testing.T) {
	t.Parallel()
	d := startForBrowser(t)
	for i := range 3 {
		d.Send(t, "POST", fmt.Sprintf("content/jobs?filename=scan-%d", i), "x")
	}
	a, err := http.PostForm(d.URL+"consume/jobs", url.Values{"lease": {"600"}})
	must(t, err)
	a.Body.Close()
	body, header := form("outcome", "error", "type", "fatal", "message", "page 7 is missing")
	d.Send(t, "POST", "outcome/jobs/j000000000001", body, append(header, "Cutie-Lease", a.Header.Get("Cutie-Lease"))...)

	b := browse(t, d.URL)
	b.open("state/jobs?t=xhtml")
	b.until(`document.querySelector('.live')?.textContent === 'live'`)
	b.tabTo(".skip", 1)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.tabTo("#tiles a", 1)
	// The tiles are replaced, and the focus and the place of the page stay.
	d.Send(t, "POST", "content/jobs?filename=scan-3", "x")
	b.until(`document.querySelector('#tiles b').textContent === '3'`)
	b.until(`document.activeElement.matches('#tiles li:first-child a')`)
	b.tabTo("#find", 20)
	b.do(chromedp.KeyEvent("page 7"), chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelectorAll('input[name=job]').length === 1 && document.readyState === 'complete'`)
	b.tabTo("input[value=j000000000001]", 2)
	b.do(chromedp.KeyEvent(" "))
	b.tabTo("button[value=requeue]", 3)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`document.title.startsWith('Requeue jobs') && document.readyState === 'complete'`)
	b.tabTo(".skip", 1)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.tabTo("fieldset button", 3)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector('.note')?.textContent === '1 job was requeued.'`)
	if got := d.Send(t, "GET", "state/jobs?limit=0&t=json", ""); !strings.Contains(got, `"numPendingJobs":4`) || !strings.Contains(got, `"numFailedJobs":0`) {
		t.Errorf("the job does not run again: %s", got)
	}
	// A file is submitted: the key opens the dialog of the system, which gives a file.
	b.open("state/jobs?t=xhtml")
	b.until(`document.querySelector('.live')?.textContent === 'live'`)
	b.tabTo("a[href='#actions']", 15)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.tabTo("input[type=file]", 1)
	b.giveFile(filepath.Join(t.TempDir(), "by-keys.txt"))
	b.tabTo("textarea", 1)
	b.do(chromedp.KeyEvent("from the reading room"))
	b.tabTo("button", 1)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector('.lead')?.textContent === 'by-keys.txt' && document.readyState === 'complete'`)
	if got := d.Send(t, "GET", "state/jobs/j000000000005?t=json", ""); !strings.Contains(got, `"sidecar":"from the reading room"`) {
		t.Errorf("got %s", got)
	}
	// A part of a page opens and closes, and its form is filled in.
	b.open("state/jobs?t=xhtml#actions")
	b.until(`document.querySelector('.live')?.textContent === 'live'`)
	b.tabTo("form:last-of-type summary", 6)
	b.do(chromedp.KeyEvent(" "))
	b.tabTo("input[name=description]", 1)
	b.do(chromedp.KeyEvent("of the scanner"))
	b.tabTo("form:last-of-type button", 40)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector('.lead')?.textContent === 'of the scanner'`)
	b.until(`document.querySelector('#saved').checkVisibility()`)
	b.fine("pages by keys")
}

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
	d.Send(t, "POST", "consume/evil", body, header...)
	b := browse(t, d.URL)
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
		d.Send(t, "POST", fmt.Sprintf("content/jobs?filename=scan-%d", i), "x")
	}
	b := browse(t, d.URL)
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	held := func(n string) {
		t.Helper()
		if got := d.Send(t, "GET", "state/jobs?limit=0&t=json", ""); !strings.Contains(got, `"numHeldJobs":`+n) {
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

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
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
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
	case <-time.After(waitLimit):
		b.t.Fatal("no dialog for files is open")
	}
}

// A failed job is found and run again by the keyboard alone, in few keys, while the page
// follows the queue.
func TestBrowserNeedsNoMouse(t *testing.T) {
	t.Parallel()
	d := startForBrowser(t)
	for i := range 3 {
		d.send(t, "POST", fmt.Sprintf("content/jobs?filename=scan-%d", i), "x")
	}
	a, err := http.PostForm(d.url+"consume/jobs", url.Values{"lease": {"600"}})
	must(t, err)
	a.Body.Close()
	body, header := form("outcome", "error", "type", "fatal", "message", "page 7 is missing")
	d.send(t, "POST", "outcome/jobs/j000000000001", body, append(header, "Cutie-Lease", a.Header.Get("Cutie-Lease"))...)

	b := browse(t, d.url)
	b.open("state/jobs?t=xhtml")
	b.until(`document.querySelector('.live')?.textContent === 'live'`)
	b.tabTo(".skip", 1)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.tabTo("#tiles a", 1)
	// The tiles are replaced, and the focus and the place of the page stay.
	d.send(t, "POST", "content/jobs?filename=scan-3", "x")
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
	if got := d.send(t, "GET", "state/jobs?limit=0&t=json", ""); !strings.Contains(got, `"numPendingJobs":4`) || !strings.Contains(got, `"numFailedJobs":0`) {
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
	if got := d.send(t, "GET", "state/jobs/j000000000005?t=json", ""); !strings.Contains(got, `"sidecar":"from the reading room"`) {
		t.Errorf("got %s", got)
	}
	// A part of a page opens and closes, and its form is filled in.
	b.open("state/jobs?t=xhtml#actions")
	b.until(`document.querySelector('.live')?.textContent === 'live'`)
	b.tabTo("form:last-of-type summary", 6)
	b.do(chromedp.KeyEvent(" "))
	b.tabTo("input[name=description]", 1)
	b.do(chromedp.KeyEvent("of the scanner"))
	b.tabTo("form:last-of-type button", 7)
	b.do(chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector('.lead')?.textContent === 'of the scanner'`)
	b.until(`document.querySelector('#saved').checkVisibility()`)
	b.fine("pages by keys")
}

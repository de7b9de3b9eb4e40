//go:build !race

package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// hostile is run by a page if it takes text for markup, wherever it stands.
const hostile = `"'><script>document.title='hit'</script><img src="x" onerror="document.title='hit'">&lt;` + "</title></textarea></pre>"

// A browser is a running Chromium with one page.
type browser struct {
	ctx context.Context
	t   *testing.T
	url string

	mu       sync.Mutex
	troubles []string // dialogs, exceptions, and refusals by the policy
}

// browse starts a browser for the pages of a daemon.
func browse(t *testing.T, url string) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: pages are not tried in a browser")
	}
	// It leaves directories in that of temporary files. Its socket there wants a short name.
	dir, err := os.MkdirTemp("", "browser-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()), chromedp.Env("TMPDIR="+dir), chromedp.Flag("disable-dev-shm-usage", false), chromedp.Flag("in-process-gpu", true))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx, t: t, url: url}
	must(t, chromedp.Listen(ctx, b.hear))
	if _, err := chromedp.Call(ctx, cdplog.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// hear notes the troubles among the events of the page.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		b.troubles = append(b.troubles, "dialog "+e.Message)
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if o := e.ExceptionDetails.Exception; o != nil {
			text = o.Description
		}
		b.troubles = append(b.troubles, "exception "+text)
	case *cdplog.EventEntryAdded:
		if strings.Contains(e.Entry.Text, "Content Security Policy") || e.Entry.Source == cdplog.EntrySourceSecurity || e.Entry.Source == cdplog.EntrySourceXML {
			b.troubles = append(b.troubles, "refused: "+e.Entry.Text)
		}
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, processes.Limit)
	defer cancel()
	must(b.t, chromedp.Do(ctx, steps...))
}

// evaluated evaluates an expression.
func evaluated[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + path))
}

// until waits until an expression is true, also over a navigation.
func (b *browser) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(processes.Limit); ; time.Sleep(processes.Again) {
		if so, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression)); err == nil && so {
			return
		}
		if time.Now().After(end) {
			b.fine(expression)
			b.t.Fatalf("%s: not so on\n%.2000s", expression, evaluated[string](b, "document.body.textContent"))
		}
	}
}

// fine fails the test if something ran, or was refused, on the pages so far.
func (b *browser) fine(of string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, trouble := range b.troubles {
		b.t.Errorf("%s: %s", of, trouble)
	}
	b.troubles = nil
}

// form is a form as a body, with its header.
func form(fields ...string) (body string, header []string) {
	values := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		values.Add(fields[i], fields[i+1])
	}
	return values.Encode(), []string{"Content-Type", "application/x-www-form-urlencoded"}
}

func hostileJobs(t *testing.T, d *processes.Daemon) {
	body, header := form("name", hostile, "description", hostile, "acknowledge", "required")
	d.Send(t, "PUT", "state/evil", body, header...)
	for _, media := range []string{"text/html", "image/svg+xml", "application/xhtml+xml", "application/json", "image/png", "text/xml"} {
		payload := hostile
		if media == "application/json" {
			payload = fmt.Sprintf(`{%q:[%q]}`, hostile, hostile)
		}
		d.Send(t, "POST", "content/evil?filename="+url.QueryEscape(strings.ReplaceAll(hostile, "/", "")), payload, "Content-Type", media, "User-Agent", hostile,
			"Cutie-Sidecar", url.PathEscape(hostile))
	}
	body, header = form("lease", "600")
	d.Send(t, "POST", "consume/evil", body, append(header, "User-Agent", hostile)...)
	for job := 2; job <= 3; job++ {
		body, header = form("reason", hostile)
		d.Send(t, "POST", fmt.Sprintf("hold/evil/j%012d", job), body, header...)
	}
	// Its worker leaves a result, and gives a reason for its failure.
	a, err := http.PostForm(d.URL+"consume/evil", url.Values{"lease": {"600"}})
	must(t, err)
	a.Body.Close()
	worker := []string{"User-Agent", hostile, "Cutie-Lease", a.Header.Get("Cutie-Lease")}
	d.Send(t, "PUT", "result/evil/j000000000004/page.html", hostile, append(worker, "Content-Type", "text/html")...)
	d.Send(t, "PUT", "result/evil/j000000000004/page.svg", `<svg xmlns="http://www.w3.org/2000/svg" onload="document.title='hit'"><script>document.title='hit'</script></svg>`,
		append(worker, "Content-Type", "image/svg+xml")...)
	body, header = form("outcome", "error", "type", "fatal", "message", hostile)
	d.Send(t, "POST", "outcome/evil/j000000000004", body, append(worker, header...)...)
	// Its manifest names a file that is not fetched, so the batch fails.
	d.Send(t, "POST", "content/evil?type=batch-manifest&filename="+url.QueryEscape(strings.ReplaceAll(hostile, "/", "")), "http://127.0.0.1:1/"+url.PathEscape(hostile)+"\n",
		"Prefer", "respond-async", "User-Agent", hostile)
	// Payloads that run by themselves, if they are shown as such.
	for media, payload := range runs {
		d.Send(t, "POST", "content/evil?filename=x", payload, "Content-Type", media)
	}
}

// hostileCount is how many jobs these are.
var hostileCount = 6 + len(runs)

// runs are payloads that browsers run, by their types.
var runs = map[string]string{
	"text/html":             `<script>document.title='hit'</script>`,
	"image/svg+xml":         `<svg xmlns="http://www.w3.org/2000/svg" onload="document.title='hit'"><script>document.title='hit'</script></svg>`,
	"application/xhtml+xml": `<html xmlns="http://www.w3.org/1999/xhtml"><head><script>document.title='hit'</script></head><body/></html>`,
	"application/xml": `<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="data:text/xsl,%3Cxsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'%3E%3Cxsl:template match='/'%3E` +
		`%3Chtml%3E%3Cscript%3Edocument.title='hit'%3C/script%3E%3C/html%3E%3C/xsl:template%3E%3C/xsl:stylesheet%3E"?><a/>`,
	"text/plain": hostile, // browsers must not guess
}

// Text from outside stays text on every page, at every width, and nothing of a page is
// refused by its own policy.
func TestBrowserRunsNothingFromOutside(t *testing.T) {
	t.Parallel()
	d := startForBrowser(t)
	hostileJobs(t, d)
	b := browse(t, d.URL)
	at := url.QueryEscape(hostile)
	paths := []string{"", "state?t=xhtml", "state/evil?t=xhtml", "state/evil?t=text/html", "state/evil?status=consumed&t=xhtml", "find/evil", "find/evil?text=" + at,
		"find/evil?worker=" + at + "&submitter=" + at, "find/evil?status=" + at, "bulk/evil?status=pending&method=hold", "bulk/evil?method=" + at,
		"bulk/evil?submitter=" + at + "&method=delete", "bulk/evil?job=j000000000001&job=j000000000099&method=delete",
		"batches/evil", "failures/evil", "own/evil", "own/evil?job=" + at, "read/" + at, "uws/" + at + "/async?format=html", "uws/evil/async/" + at + "?format=html", at, "mirrors", "manual", "manual/workers", "workers", "workers/evil", "history", "history/evil?span=day", "history?span=" + at, "help?t=xhtml", "state/" + at + "?t=xhtml",
		".well-known/resourcesync/evil/replica/about.html", "read", "read/evil/replica/changelist.xml", "read/evil/pending/capabilitylist.xml", "uws/evil/async?format=html"}
	for job := 1; job <= hostileCount; job++ {
		paths = append(paths, fmt.Sprintf("state/evil/j%012d?t=xhtml", job), fmt.Sprintf("uws/evil/async/j%012d?format=html", job))
	}
	b.do(chromedp.EmulateViewport(390, 800))
	for _, path := range paths {
		b.open(path)
		hit := evaluated[bool](b, `document.title === 'hit' || document.querySelector('[onerror]') !== null`)
		wide := evaluated[bool](b, `document.documentElement.scrollWidth > document.documentElement.clientWidth`)
		if hit {
			t.Errorf("%s: text from outside is markup", path)
		}
		if wide {
			t.Errorf("%s: wider than a phone", path)
		}
		b.fine(path)
	}
	// Payloads and states at their own URLs are in a sandbox, or are no pages.
	for job := 1; job <= hostileCount; job++ {
		id := fmt.Sprintf("j%012d", job)
		for i, path := range []string{"queues/evil/payload/" + id, "uws/evil/async/" + id + "/parameters/payload", "queues/evil/pending/" + id, "content/evil/" + id, "state/evil/" + id + "?t=soif", "state/evil/" + id + "?t=xml"} {
			if !long.On() && (job+i)%3 != 0 {
				continue // a short test opens each job at two of its URLs
			}
			chromedp.Do(b.ctx, chromedp.Navigate(b.url+path)) // some are downloads
			if evaluated[bool](b, `document.title === 'hit'`) {
				t.Errorf("%s: it runs", path)
			}
		}
	}
	for _, name := range []string{"page.html", "page.svg"} {
		chromedp.Do(b.ctx, chromedp.Navigate(b.url+"result/evil/j000000000004/"+name))
		if evaluated[bool](b, `document.title === 'hit'`) {
			t.Errorf("%s: it runs", name)
		}
	}
}

// An open page follows the queue, says when the daemon is gone, and takes dropped files.
func TestBrowserPagesFollowTheQueue(t *testing.T) {
	t.Parallel()
	d := startForBrowser(t)
	b := browse(t, d.URL)
	b.open("")
	b.until(`document.querySelector('.live')?.textContent === 'live'`)
	d.Send(t, "POST", "content/jobs?filename=first", "one")
	b.until(`document.getElementById('q-jobs').cells[1].textContent === '1'`)

	b.open("state/jobs?t=xhtml")
	b.until(`document.querySelector('.live')?.textContent === 'live'`)
	d.Send(t, "POST", "content/jobs?filename=second", "two")
	b.until(`document.getElementById('newest').textContent.includes('second')`)
	b.until(`document.querySelector('#tiles b').textContent === '2'`)
	// A part with selected text waits, and says so.
	b.do(chromedp.Evaluate[chromedp.Void](`getSelection().selectAllChildren(document.querySelector('#newest td'))`))
	d.Send(t, "POST", "delete/jobs/j000000000002", "")
	b.until(`document.querySelector('.live').textContent === 'waits: text is selected'`)
	if got := evaluated[string](b, `getSelection().toString() + ' ' + document.querySelector('#newest .badge').textContent`); got != "j000000000002 pending" {
		t.Errorf("selected: got %q", got)
	}
	b.do(chromedp.Evaluate[chromedp.Void](`getSelection().removeAllRanges()`))
	b.until(`document.querySelector('.live').textContent === 'live' && document.querySelector('#newest .badge').textContent === 'deleted'`)
	b.do(chromedp.KeyEvent("/"))
	b.until(`document.activeElement.name === 'text'`)

	b.do(chromedp.Evaluate[chromedp.Void](`{
		const data = new DataTransfer();
		data.items.add(new File(['three'], 'third.txt'));
		data.items.add(new File(['four'], 'fourth.txt'));
		document.body.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: data}));
	}`), chromedp.KeyEvent("\r"))
	b.until(`document.getElementById('newest')?.textContent.includes('third.txt') && document.getElementById('newest').textContent.includes('fourth.txt')`)
	if got := d.Send(t, "GET", "state/jobs?limit=0&t=json", ""); !strings.Contains(got, `"numPendingJobs":3`) {
		t.Errorf("the dropped files are no jobs: %s", got)
	}
	// The page of a job keeps its form, and says that the job has changed.
	b.open("state/jobs/j000000000001?t=xhtml")
	b.until(`document.querySelector('.live')?.textContent === 'live'`)
	b.do(chromedp.SendKeys(`input[name=reason]`, "a reason"))
	d.Send(t, "POST", "delete/jobs/j000000000001", "")
	b.until(`document.getElementById('news').textContent.includes('Now it is deleted.')`)
	b.until(`document.querySelector('input[name=reason]').value === 'a reason'`)
	b.do(chromedp.Click(`#news a`))
	b.until(`document.querySelector('h1 .badge')?.textContent === 'deleted'`)

	b.open("state/jobs?t=xhtml")
	b.until(`document.querySelector('.live')?.textContent === 'live'`)
	if err := d.Stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	b.until(`document.querySelector('.live')?.textContent.startsWith('not connected since')`)
	b.fine("live pages")
}

// Without scripts pages are whole, and all can be done: find, look at a preview, change.
func TestBrowserNeedsNoScript(t *testing.T) {
	t.Parallel()
	d := startForBrowser(t)
	for i := range 3 {
		d.Send(t, "POST", fmt.Sprintf("content/jobs?filename=scan-%d", i), "x")
	}
	b := browse(t, d.URL)
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.open("")
	b.do(chromedp.Click(`#q-jobs a`), chromedp.WaitVisible(`#find`), chromedp.SendKeys(`#find`, "scan-1"), chromedp.Click(`.find button`),
		chromedp.WaitVisible(`input[value=j000000000002]`), chromedp.Click(`input[value=j000000000002]`), chromedp.Click(`button[value=hold]`),
		chromedp.WaitVisible(`input[name=reason]`), chromedp.SendKeys(`input[name=reason]`, "no scripts here"), chromedp.Click(`fieldset button`),
		chromedp.WaitVisible(`table.state`))
	if got := d.Send(t, "GET", "state/jobs/j000000000002?t=json", ""); !strings.Contains(got, "no scripts here") {
		t.Errorf("the job is not on hold: %s", got)
	}
	if got := d.Send(t, "GET", "state/jobs?limit=0&t=json", ""); !strings.Contains(got, `"numHeldJobs":1`) {
		t.Errorf("other jobs are on hold: %s", got)
	}
}

// TestBrowserScreenshots writes pages as images, to be looked at, into the directory
// CUTIE_SCREENSHOTS.
func TestBrowserScreenshots(t *testing.T) {
	to := os.Getenv("CUTIE_SCREENSHOTS")
	if to == "" {
		t.Skip("CUTIE_SCREENSHOTS names no directory")
	}
	d := startForBrowser(t)
	hostileJobs(t, d)
	b := browse(t, d.URL)
	for name, path := range map[string]string{"home": "", "queue": "state/evil?t=xhtml", "job": "state/evil/j000000000001?t=xhtml", "find": "find/evil",
		"bulk": "bulk/evil?status=pending&method=hold", "workers": "workers", "history": "history", "empty": "state/jobs?t=xhtml"} {
		for _, width := range []int64{390, 1024, 1600} {
			for _, scheme := range []string{"light", "dark"} {
				if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
					t.Fatal(err)
				}
				b.do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(b.url+path))
				image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				must(t, err)
				file := filepath.Join(to, fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
				must(t, os.WriteFile(file, image, 0o644))
			}
		}
	}
}

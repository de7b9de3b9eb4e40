package dashboard

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// A failPage tells a person that a request was refused, why, and what to do.
type failPage struct {
	head
	Number, Detail string
	Asked          string // method and path
	Ways           []wayOut
	Table          template.HTML // the state for programs; "" without one
}

// A wayOut is one thing to do, with a link that helps.
type wayOut struct {
	Text string
	Link link // Ref is "" without one
}

// A remedy is a status in words, and the way out.
type remedy struct{ title, text string }

var remedies = map[int]remedy{
	http.StatusBadRequest:                   {"This request is not understood", "Go back, correct it, and send it again."},
	http.StatusUnauthorized:                 {"A name and a password are needed", "Load this page again, and enter both. An administrator makes users with cutie user add."},
	http.StatusForbidden:                    {"You may not do this", "Ask an administrator for the right: cutie user set gives it."},
	http.StatusNotFound:                     {"There is nothing here", "Check the address. Jobs that are done may have been culled, and queues removed."},
	http.StatusMethodNotAllowed:             {"This does not work in this way", "Open the page of the job or of the queue, and use its forms."},
	http.StatusRequestTimeout:               {"The request came too slowly", "Send it again, over a faster connection if you can."},
	http.StatusConflict:                     {"This does not fit the present state", "Somebody else may have been faster. Look at the present state, and decide again."},
	http.StatusGone:                         {"This is over", "Look at the present state: a lease that has ended is of no use any more."},
	http.StatusLengthRequired:               {"The length of the request is missing", "Send it with a Content-Length."},
	http.StatusPreconditionFailed:           {"This has changed meanwhile", "Look at the present state, and decide again."},
	http.StatusRequestEntityTooLarge:        {"This is too large", "Send less. An administrator may raise the limit."},
	http.StatusUnsupportedMediaType:         {"This form is not supported", "Ask for another form, or send another one."},
	http.StatusRequestedRangeNotSatisfiable: {"The file has no such part", "Ask for the whole file."},
	http.StatusMisdirectedRequest:           {"The service does not know this name", "Use the address given by its administrator, who sets it with cutie serve --base-uri."},
	http.StatusUnprocessableEntity:          {"This cannot be done", "Go back, correct it, and send it again."},
	http.StatusTooManyRequests:              {"Too many requests", "Wait, and try again. An administrator may raise the limit."},
	http.StatusInternalServerError:          {"Something is wrong with the service", "Try again. If it stays, tell an administrator: the log of the daemon says more."},
	http.StatusNotImplemented:               {"This cannot be done here", "Look into the manual for another way."},
	http.StatusServiceUnavailable:           {"This does not work at the moment", "Try again in a while. If it stays, tell an administrator: the log of the daemon says more."},
	http.StatusInsufficientStorage:          {"The disk of the service is full", "Everything accepted before is safe, and jobs can still be taken. Send this again when there is space: the daemon goes on by itself. An administrator makes space with cutie cull."},
}

// remedyOf returns the words for a status; others of its class have those of its first one.
func remedyOf(status int) remedy {
	if r, ok := remedies[status]; ok {
		return r
	}
	return remedies[status/100*100]
}

// topicOf is the part of the manual that helps, "" without one.
func topicOf(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMisdirectedRequest:
		return "access"
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return "limits"
	case http.StatusInternalServerError, http.StatusServiceUnavailable:
		return OnTrouble
	case http.StatusInsufficientStorage:
		return OnFullDisk
	}
	return ""
}

// ofUWS are the words for the status of everything that a queue rejects (UWS 1.1, 2.2.3).
var ofUWS = remedy{"The queue refuses this", "Go back, correct it, and send it again. The jobs of others are theirs alone."}

// newFailPage returns the page of a refused request with the state d.
func newFailPage(d *state.Document, f *web.Failure) *failPage {
	p := failed(d.Base, f, remedyOf(f.Status))
	p.Table = template.HTML(state.AppendTable(nil, d, nil))
	return p
}

// failed returns the page of a refused request with these words.
func failed(base state.Base, f *web.Failure, r remedy) *failPage {
	p := &failPage{Number: strconv.Itoa(f.Status), Detail: f.Detail, Asked: clipped(clean(f.Method + " " + f.Path))}
	may := func(path string) bool { return base != "" && (f.May == nil || f.May(http.MethodGet, path)) }
	var steps []crumb
	queue := base.Ref("state", f.Queue)
	if f.Queue != "" && f.Status != http.StatusForbidden && may(queue[len(base):]) {
		steps = append(steps, crumb{"step", state.XHTML.Ask(queue), clean(f.Queue)})
	}
	p.head = newHead(r.title, base, f.May, steps...)
	if reads := f.Method == http.MethodGet || f.Method == http.MethodHead; !reads && (f.Status < 500 || f.Status == http.StatusInsufficientStorage) {
		p.Ways = append(p.Ways, wayOut{Text: "Nothing was changed."})
	}
	p.Ways = append(p.Ways, wayOut{Text: r.text})
	if n, err := strconv.Atoi(f.After); err == nil && n > 0 {
		p.Ways = append(p.Ways, wayOut{Text: "Another try can succeed in " + lasting((time.Duration(n) * time.Second).Seconds()) + "."})
	}
	if len(steps) > 0 {
		if job := base.Ref("state", f.Queue, f.Job); f.Job != "" && f.Status != http.StatusNotFound {
			p.Ways = append(p.Ways, wayOut{"The job as it is now:", link{state.XHTML.Ask(job), clean(f.Job)}})
		}
		p.Ways = append(p.Ways, wayOut{"The queue as it is now:", link{state.XHTML.Ask(queue), clean(f.Queue)}})
	} else if may("/") {
		p.Ways = append(p.Ways, wayOut{"Begin anew:", link{string(base) + "/", "queues open to you"}})
	}
	if topic := topicOf(f.Status); r != ofUWS && topic != "" && base != "" {
		p.Ways = append(p.Ways, wayOut{"The manual has more:", link{base.Ref(ManualDir) + "/" + topic, topicNames[topic]}})
	}
	return p
}

// Parts of the manual for faults of the whole service.
const (
	OnTrouble    = "operating#what-to-do-when"
	OnFullDisk   = "operating#the-disk-is-nearly-full"
	OnFailedSync = "operating#a-sync-failed"
)

var topicNames = map[string]string{"access": "users, tokens, rights", "limits": "limits", OnTrouble: "what to do when", OnFullDisk: "when the disk is full"}

// A Preview shows the beginning of a payload: as text of the page, in hexadecimal digits,
// or as an image at the URL of the payload. The payload itself is never a part of a page:
// HTML and SVG are text here.
type Preview struct {
	Text, Image, Note string
	Hex               bool // Text is a table of digits
}

// PreviewOctets is how many octets of a payload a [Preview] needs.
const PreviewOctets = 16 << 10

const (
	hexOctets   = 512
	imageOctets = 8 << 20
)

// images are the types that browsers draw without running anything.
var images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// NewPreview returns the preview of a payload of a media type and a size, which begins
// with head, and stands at a URL.
func NewPreview(mediaType string, size int64, head []byte, url string) *Preview {
	media, _, _ := mime.ParseMediaType(mediaType)
	p := &Preview{}
	switch whole := size <= int64(len(head)); {
	case size == 0:
		p.Note = "It is empty."
		return p
	case slices.Contains(images, media) && http.DetectContentType(head) == media && size <= imageOctets:
		p.Image = url
		return p
	case whole && (media == "application/json" || strings.HasSuffix(media, "+json") || bytes.HasPrefix(bytes.TrimSpace(head), []byte("{"))):
		var b bytes.Buffer
		if utf8.Valid(head) && json.Indent(&b, head, "", "  ") == nil && b.Len() < 4*PreviewOctets {
			p.Text, p.Note = clean(b.String()), "JSON, with line ends added."
			return p
		}
	}
	if text, ok := asText(head, size > int64(len(head))); ok {
		p.Text = text
		if size > int64(len(head)) {
			p.Note = fmt.Sprintf("The first %d of %s octets.", len(head), figure(size))
		}
		return p
	}
	part := head[:min(len(head), hexOctets)]
	p.Text, p.Hex = hex.Dump(part), true
	if size > int64(len(part)) {
		p.Note = fmt.Sprintf("The first %d of %s octets.", len(part), figure(size))
	}
	return p
}

// asText returns the octets as text, false if they are none. A character cut at the end is
// left out if more follows.
func asText(head []byte, more bool) (string, bool) {
	for cut := 1; more && cut < utf8.UTFMax && len(head) > 0 && !utf8.Valid(head); cut++ {
		head = head[:len(head)-1]
	}
	if !utf8.Valid(head) || bytes.ContainsFunc(head, func(r rune) bool { return !inXML(r) }) {
		return "", false
	}
	return string(head), true
}

// A cause is failed jobs with messages alike.
type cause struct {
	text    string
	jobs    []job.ID // the newest first
	workers []string
	newest  string // file of the newest job
	last    time.Time
}

// fewWorkers is how many workers the row of a cause names.
const fewWorkers = 2

// shownReasons is how many reasons a page has.
const shownReasons = 50

// alike returns the first line of a message without the words by which messages of one
// reason differ: names and numbers of things. Numbers of up to three digits stay; many are codes.
func alike(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	words := strings.Fields(clipped(clean(line)))
	for i, w := range words {
		core := strings.TrimFunc(w, func(r rune) bool { return unicode.IsPunct(r) && r != '…' })
		digits := strings.IndexFunc(core, func(r rune) bool { return r < '0' || r > '9' }) < 0
		if strings.ContainsFunc(core, unicode.IsDigit) && !(digits && len(core) <= 3) {
			words[i] = strings.Replace(w, core, "…", 1)
		}
	}
	return strings.Join(words, " ")
}

type failuresPage struct {
	head
	Lead, Bulk, Rest string
	More             []link
	Rows             []failureRow
	Requeue          bool
}

type failureRow struct {
	Count, Reason, Workers, Last, Jobs string
	Newest                             link
	File                               string
}

// failures answers with the reasons of the failed jobs of a queue, the most frequent first. It
// looks from the newest job back.
func (b *Board) failures(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	n, of := 0, map[string]*cause{}
	var causes []*cause
	var l look
	for id := range l.back(q, index.Filter{Outcome: job.Failed}) {
		j, err := q.Listed(id)
		if err != nil || j.Outcome != job.Failed { // it may run again by now
			continue
		}
		n++
		text := alike(j.Message)
		c := of[text]
		if c == nil {
			c = &cause{text: text, newest: j.Filename}
			of[text], causes = c, append(causes, c)
		}
		c.jobs = append(c.jobs, j.ID)
		if !slices.Contains(c.workers, j.Consumer) && len(c.workers) <= fewWorkers {
			c.workers = append(c.workers, j.Consumer)
		}
		if j.Finished.After(c.last) {
			c.last = j.Finished
		}
	}
	v, s := b.site(r, ""), q.State()
	p := &failuresPage{head: v.ofQueue("Failed jobs of queue "+q.ID(), q.ID(), step("Failed")),
		Bulk: v.Base.Ref("bulk", q.ID()), Requeue: !s.Mirror.Live() && v.may("POST", v.Base.Ref("requeue", q.ID()))}
	switch {
	case n == 0:
		p.Lead = "No job has failed."
	case int64(n) < s.Failed:
		p.Lead = fmt.Sprintf("The newest %s of %s failed jobs by their reasons.", figure(n), figure(s.Failed))
	default:
		p.Lead = plural(n, "failed job") + " by reason."
	}
	if n > 0 {
		p.More = append(p.More, link{v.Base.Ref("find", q.ID()) + "?outcome=error", "List them"})
		if p.Requeue {
			p.More = append(p.More, link{p.Bulk + "?outcome=error&method=requeue", "Run all of them again …"})
		}
	}
	slices.SortStableFunc(causes, func(a, b *cause) int { return cmp.Compare(len(b.jobs), len(a.jobs)) })
	if rest := len(causes) - shownReasons; rest > 0 {
		p.Rest = "And " + plural(rest, "rarer reason") + "."
	}
	for _, c := range causes[:min(len(causes), shownReasons)] {
		newest := c.jobs[0].String()
		row := failureRow{Count: figure(len(c.jobs)), Reason: cmp.Or(c.text, "no reason given"),
			Last: state.Ago(time.Now(), c.last), Newest: link{v.page("state", q.ID(), newest), newest},
			File: clipped(clean(c.newest)), Jobs: ranges(slices.Sorted(slices.Values(c.jobs)))}
		if row.Workers = clipped(clean(strings.Join(c.workers, ", "))); len(c.workers) > fewWorkers {
			row.Workers = "several"
		}
		p.Rows = append(p.Rows, row)
	}
	return answer(w, v.write("failures", p))
}

package state

import "time"

// appendJobs appends what the state of a queue lists.
func (d *Document) appendJobs(dst []byte, v *View) []byte {
	heading := "Jobs"
	if t := d.listed(); t != nil {
		heading = t.heading
	}
	if s := d.text("jobsBatch"); s != "" {
		heading += " of batch " + s
	}
	dst = append(appendEscaped(append(dst, "<h2>"...), heading, false), "</h2>\n"...)
	refs := d.items("jobStates")
	switch {
	case len(refs) == 0:
		dst = append(dst, "<p class=\"none\">None.</p>\n"...)
	case len(v.Jobs) == 0:
		dst = appendNames(dst, refs)
	default:
		dst = appendRows(dst, refs, v)
	}
	next := d.text("jobsNext")
	if next == "" && d.text("jobsAfter") == "" && d.listed() == nil {
		return dst
	}
	dst = append(dst, "<p>"...)
	if next != "" {
		dst = append(appendLink(dst, asking(next, XHTML), "Next jobs"), ' ')
	}
	if d.text("jobsAfter") != "" || d.listed() != nil {
		dst = appendLink(dst, asking(d.Subject, XHTML), "All jobs")
	}
	return append(dst, "</p>\n"...)
}

// appendNames appends references by their last segments.
func appendNames(dst []byte, refs []string) []byte {
	dst = append(dst, "<ul class=\"ids\">\n"...)
	for _, ref := range refs {
		_, name, _ := cutLast(ref)
		dst = append(appendLink(append(dst, "<li>"...), asking(ref, XHTML), name), "</li>\n"...)
	}
	return append(dst, "</ul>\n"...)
}

// appendRows appends the jobs of the references, each of which v has or has not.
func appendRows(dst []byte, refs []string, v *View) []byte {
	dst = append(dst, listTop...)
	jobs := v.Jobs
	for _, ref := range refs {
		_, name, _ := cutLast(ref)
		for len(jobs) > 0 && jobs[0].ID.String() < name {
			jobs = jobs[1:]
		}
		if len(jobs) == 0 || jobs[0].ID.String() != name {
			dst = appendLink(append(dst, `<tr><td class="t">`...), asking(ref, XHTML), name)
			dst = append(dst, "</td><td></td><td></td><td></td><td class=\"minor\"></td></tr>\n"...)
			continue
		}
		d := OfJob("", &jobs[0])
		dst = d.appendRow(dst, ref, v.Now)
	}
	return append(dst, listBottom...)
}

// A list of jobs is a table. Whoever wants all that a state says follows the
// link of its row, or asks for another form.
const (
	listTop = `<div class="scroll"><table class="list" summary="Jobs in their order">
<tr><th scope="col">Job</th><th scope="col">Status</th><th scope="col">File</th><th scope="col" class="n">Octets</th><th scope="col" class="minor">Submitted (UTC)</th></tr>
`
	listBottom = "</table></div>\n"
)

// appendRow appends the row of a job, whose state is at ref.
func (d *Document) appendRow(dst []byte, ref string, now time.Time) []byte {
	dst = appendLink(append(dst, `<tr><td class="t">`...), asking(ref, XHTML), d.text("identifier"))
	dst = append(dst, "</td><td>"...)
	for _, word := range d.badges() {
		dst = append(appendBadge(dst, word), ' ')
	}
	dst = append(dst, `</td><td class="text">`...)
	dst = appendEscaped(dst, clipped(d.text("filename")), false)
	if note := clipped(d.text("message") + d.text("heldFor")); note != "" {
		dst = append(appendEscaped(append(dst, ` <span class="dim">`...), note, false), "</span>"...)
	}
	submitted := d.date("submitted")
	dst = append(append(append(dst, `</td><td class="n">`...), grouped(d.text("size"))...), `</td><td class="t minor">`...)
	dst = submitted.AppendFormat(dst, "2006-01-02 15:04:05")
	if !now.IsZero() {
		dst = append(append(append(dst, ` <span class="dim">`...), Ago(now, submitted)...), "</span>"...)
	}
	return append(dst, "</td></tr>\n"...)
}

// clipped returns the beginning of a text that would be long for a row.
func clipped(s string) string {
	const most = 80
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// A JobList is the page of a list of jobs that is written as it is read: its
// top, each of the jobs, its bottom. Its rows are those of [AppendPage].
type JobList struct {
	Base  Base
	Queue string    // cleaned identifier
	Ref   string    // where the list is
	Next  string    // where it goes on; "" at its end
	Now   time.Time // as of a View
}

// AppendTop appends what comes before the jobs.
func (l *JobList) AppendTop(dst []byte) []byte {
	b := newBuilder(QueueClass)
	b.text("name", l.Queue)
	d := b.document()
	d.Subject, d.Base = l.Ref, l.Base
	dst = d.appendPath(d.appendHead(dst))
	dst = d.appendSummary(append(dst, "<div id=\"main\">\n"...))
	return append(append(dst, "<h2>Jobs</h2>\n"...), listTop...)
}

// AppendJob appends the row of a job.
func (l *JobList) AppendJob(dst []byte, d *Document) []byte {
	return d.appendRow(dst, d.Subject, l.Now)
}

// AppendBottom appends what comes behind the jobs.
func (l *JobList) AppendBottom(dst []byte) []byte {
	dst = append(append(dst, listBottom...), "<p>"...)
	if l.Next != "" {
		dst = appendLink(dst, l.Next, "Next jobs")
	} else {
		dst = append(dst, "There are no more."...)
	}
	return append(dst, "</p>\n</div>\n</body>\n</html>\n"...)
}

package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// Failures are failed jobs of a queue by their reasons.
type Failures struct {
	Queue  string
	Failed int64 // jobs in all
	Looked int   // jobs added
	Mirror bool  // its jobs run elsewhere

	causes []*cause
	of     map[string]*cause
}

// A cause is failed jobs with messages alike.
type cause struct {
	text    string
	jobs    []queuefs.JobID // the newest first
	workers []string
	newest  string // file of the newest job
	last    time.Time
}

// Add adds a failed job. Jobs come from the newest back.
func (f *Failures) Add(j *queuefs.Job) {
	text := alike(j.Message)
	r := f.of[text]
	if r == nil {
		if f.of == nil {
			f.of = map[string]*cause{}
		}
		r = &cause{text: text, newest: j.Filename}
		f.of[text], f.causes = r, append(f.causes, r)
	}
	f.Looked++
	r.jobs = append(r.jobs, j.ID)
	if !slices.Contains(r.workers, j.Consumer) && len(r.workers) <= fewWorkers {
		r.workers = append(r.workers, j.Consumer)
	}
	if j.Finished.After(r.last) {
		r.last = j.Finished
	}
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

// Page returns the page of the failures, the most frequent first.
func (f *Failures) Page(v Site, now time.Time) []byte {
	p := &failuresPage{head: v.head("Failed jobs of queue "+f.Queue, crumb{"step", v.page("state", f.Queue), f.Queue}, crumb{Class: "step", Text: "Failed"}),
		Bulk: v.Base.Ref("bulk", f.Queue), Requeue: !f.Mirror && v.may("POST", v.Base.Ref("requeue", f.Queue))}
	switch {
	case f.Looked == 0:
		p.Lead = "No job has failed."
	case int64(f.Looked) < f.Failed:
		p.Lead = fmt.Sprintf("The newest %s of %s failed jobs by their reasons.", grouped(fmt.Sprint(f.Looked)), grouped(fmt.Sprint(f.Failed)))
	default:
		p.Lead = fmt.Sprintf("%s by reason.", plural(f.Looked, "failed job"))
	}
	if f.Looked > 0 {
		p.More = append(p.More, link{v.Base.Ref("find", f.Queue) + "?outcome=error", "List them"})
		if p.Requeue {
			p.More = append(p.More, link{p.Bulk + "?outcome=error&method=requeue", "Run all of them again …"})
		}
	}
	slices.SortStableFunc(f.causes, func(a, b *cause) int { return cmp.Compare(len(b.jobs), len(a.jobs)) })
	for i, r := range f.causes {
		if i == shownReasons {
			p.Rest = fmt.Sprintf("And %s.", plural(len(f.causes)-i, "rarer reason"))
			break
		}
		newest := r.jobs[0].String()
		row := failureRow{Count: grouped(fmt.Sprint(len(r.jobs))), Reason: cmp.Or(r.text, "no reason given"), Last: state.Ago(now, r.last),
			Newest: link{v.page("state", f.Queue, newest), newest}, File: clipped(clean(r.newest)), Jobs: ranges(slices.Sorted(slices.Values(r.jobs)))}
		if row.Workers = clipped(clean(strings.Join(r.workers, ", "))); len(r.workers) > fewWorkers {
			row.Workers = "several"
		}
		p.Rows = append(p.Rows, row)
	}
	return v.write("failures", p)
}

// plural is a number of things.
func plural[N int | int64](n N, thing string) string {
	return grouped(fmt.Sprint(n)) + " " + word(n, thing)
}

// word is the word for so many things.
func word[N int | int64](n N, thing string) string {
	if n == 1 {
		return thing
	}
	return thing + "s"
}

// failures answers with the reasons of the failed jobs of a queue, from the newest job back.
func (b *Board) failures(w http.ResponseWriter, r *http.Request) error {
	q, err := b.queue(r)
	if err != nil {
		return err
	}
	s := q.State()
	f := &Failures{Queue: q.ID(), Failed: s.Failed, Mirror: s.Mirror.Live()}
	end := time.Now().Add(maxTime)
	for before := queuefs.JobID(0); f.Looked < maxRead && (f.Looked == 0 || time.Now().Before(end)); {
		ids, reached := q.Latest(queuefs.ListOptions{Outcome: queuefs.Failed, Limit: found}, before, maxLooked)
		for _, j := range jobsOf(q, ids) {
			if j.Outcome == queuefs.Failed { // it may run again by now
				f.Add(&j)
			}
		}
		if before = reached; len(ids) == 0 || reached == 0 {
			break
		}
	}
	return answer(w, f.Page(b.site(r, ""), time.Now()))
}

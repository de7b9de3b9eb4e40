package uws

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	queuejob "cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/quota"
)

// Elements of the job file for UWS alone; see the package comment.
const (
	elemID        = quota.Made
	elemCreated   = "uws-created"
	elemRunID     = "uws-runid"
	elemUpload    = "uws-upload"
	elemPart      = "uws-part"
	elemDuration  = "uws-duration"
	elemDestroyed = "uws-destroyed"
	elemArchived  = "uws-archived"
)

// A view is one queue as clients of UWS see it.
type view struct {
	q   *queuefs.Queue
	set settings
}

func viewOf(q *queuefs.Queue) view {
	info := q.Info()
	return view{q, settingsOf(&info)}
}

// A job is a job of the queue as clients of UWS see it.
type job struct {
	view
	id  string
	cut queuejob.Job
	bad error // of [Check]: the phase is UNKNOWN
}

// as returns a job of the queue under an identifier.
func (v view) as(id string, cut *queuejob.Job) *job {
	return &job{view: v, id: id, cut: *cut, bad: Check(cut)}
}

// find returns a job. The error of a destroyed one is [ledger.ErrNoJob]. A job with
// parameters that were changed is the last one of several jobs of the queue; its
// identifier has the number of the first.
func (v view) find(id string) (*job, error) {
	n, err := queuejob.ParseID(id)
	if err != nil {
		if !isMade(id) {
			return nil, ledger.ErrNoJob
		}
		n = numberOf(id)
	}
	for {
		cut, err := v.q.Job(n)
		if errors.Is(err, ledger.ErrNoJob) {
			err = ledger.ErrNoJob // without its number
		}
		if err != nil {
			return nil, err
		}
		if nameless(&cut) { // it has no identifier to compare
			return v.as(id, &cut), nil
		}
		if v.idOf(&cut) != id {
			return nil, ledger.ErrNoJob
		}
		if next := replacedBy(&cut); isMade(id) && next > cut.ID {
			n = next
			continue
		}
		j := v.as(id, &cut)
		if j.destroyed() {
			return nil, ledger.ErrNoJob
		}
		return j, nil
	}
}

// idOf returns the identifier of a job of the queue: its number, unless the job
// was made here.
func (v view) idOf(cut *queuejob.Job) string {
	if id := cut.Extra.Value(elemID); isMade(id) {
		n := numberOf(id)
		if st, _ := v.q.Status(n); st != 0 && n <= cut.ID {
			return id
		}
	}
	return cut.ID.String()
}

// listed returns a job of the queue, nil if it was destroyed or replaced.
func (v view) listed(cut *queuejob.Job) *job {
	j := v.as(v.idOf(cut), cut)
	if j.destroyed() || isMade(j.id) && replacedBy(cut) != 0 {
		return nil
	}
	return j
}

// replacedBy returns the job in the place of another one, 0 for none.
func replacedBy(cut *queuejob.Job) queuejob.ID {
	n, _ := queuejob.ParseID(cut.Extra.Value("requeuedAs"))
	return n
}

func (j *job) phase() phase {
	switch c := &j.cut; {
	case j.bad != nil:
		return unknown
	case j.archived():
		return archived
	case c.Status == queuejob.Deleted || c.Outcome == queuejob.Aborted:
		return aborted
	case c.Status == queuejob.Pending && c.HeldFor == queuejob.NotStarted:
		return pending
	case c.Status == queuejob.Pending && (c.Held.IsZero() || !c.HeldUntil.IsZero()): // it will run by itself
		return queued
	case c.Status == queuejob.Pending:
		return held
	case c.Outcome == queuejob.Failed:
		return failed
	case c.Outcome == queuejob.Completed, c.Lease.Ends.IsZero():
		return completed
	}
	return executing
}

// destroyed reports whether the job was destroyed. A requeue by an operator
// changes nothing.
func (j *job) destroyed() bool { return j.cut.Extra.Value(elemDestroyed) != "" }

// archived reports whether the job is ARCHIVED: it is until an operator
// requeues it.
func (j *job) archived() bool {
	at := j.archivedAt()
	return !at.IsZero() && !j.cut.Requeued.After(at)
}

func (j *job) archivedAt() time.Time {
	at, _ := parseTime(j.cut.Extra.Value(elemArchived))
	return at
}

// reported reports whether a consumer reported the outcome.
func (j *job) reported() bool { return j.cut.Outcome != 0 }

// created returns the creation, never later than the submission.
func (j *job) created() time.Time {
	t := stamp(j.cut.Submitted)
	if made, err := parseTime(j.cut.Extra.Value(elemCreated)); err == nil && made.Before(t) {
		t = stamp(made)
	}
	return t
}

// ran returns when the work on the job began and ended, zero if it did not.
func (j *job) ran() (start, end time.Time) {
	c := &j.cut
	switch start = c.Begun(); {
	case !c.Finished.IsZero():
		end = c.Finished
	case !c.Deleted.IsZero():
		end = c.Deleted
	case j.phase() == completed || j.phase() == archived:
		end = c.Consumed // nobody will say more
	}
	return start, end
}

func (j *job) owner() string { return j.cut.Owner }
func (j *job) runID() string { return j.cut.Extra.Value(elemRunID) }

// duration returns the seconds the job may run, 0 for no limit.
func (j *job) duration() int64 {
	if n, err := strconv.ParseInt(j.cut.Extra.Value(elemDuration), 10, 32); err == nil && n >= 0 {
		return n
	}
	return j.set.duration
}

// destruction returns when the job is destroyed, or was archived; zero for
// never.
func (j *job) destruction() time.Time {
	if j.cut.Destruction.IsZero() {
		return j.archivedAt()
	}
	return j.cut.Destruction
}

// A parameter is one as clients see it; ref means by reference.
type parameter struct {
	pair
	ref bool
}

// payloadName is the parameter of an opaque payload.
const payloadName = "payload"

// pairs returns the parameters without files.
func (j *job) pairs() []pair {
	pairs, _ := parsePairs(j.cut.Sidecar)
	return pairs
}

// uploads returns the names of the files.
func (j *job) uploads() (names []string) {
	for _, p := range partsOf(&j.cut) {
		names = append(names, p.name)
	}
	if name := j.cut.Extra.Value(elemUpload); name != "" && names == nil {
		names = []string{name}
	}
	return names
}

// parameters returns all parameters, in the order of the request.
func (j *job) parameters() (list []parameter) {
	if j.bad != nil {
		return nil
	}
	pairs := j.pairs()
	for _, p := range pairs {
		list = append(list, parameter{p, false})
	}
	files := j.uploads()
	for _, name := range files {
		list = append(list, parameter{pair{name: name}, true})
	}
	if files == nil && (j.cut.Extra.Value(elemID) == "" || pairs == nil && j.cut.Size > 0) {
		list = append(list, parameter{pair{name: payloadName}, true})
	}
	return list
}

// failure returns the first line of the message of a failed or aborted job, ""
// for others, and the whole message.
func (j *job) failure() (summary, detail string, transient bool) {
	if j.cut.Outcome != queuejob.Failed && j.cut.Outcome != queuejob.Aborted {
		return "", "", false
	}
	detail = j.cut.Message
	if j.cut.Outcome == queuejob.Failed && detail == "" {
		detail = "the job failed and its worker gave no reason"
	}
	summary, _, _ = strings.Cut(strings.TrimSpace(detail), "\n")
	if r := []rune(summary); len(r) > 300 {
		summary = string(r[:299]) + "…"
	}
	return summary, detail, j.cut.Transient
}

// hasDetail reports whether a worker handed in the detail of the error.
func (j *job) hasDetail() bool {
	_, ok := j.cut.ErrorDetail()
	return ok
}

func (j *job) results() []queuejob.Result {
	if p := j.phase(); p == archived || p == unknown {
		return nil
	}
	return j.cut.Results
}

// with returns r with one element of the name, or without it for the value "".
func with(r anvl.Record, name, value string) (changed anvl.Record) {
	for _, e := range r {
		if !strings.EqualFold(e.Name, name) {
			changed = append(changed, e)
		}
	}
	if value != "" {
		changed.Add(name, value)
	}
	return changed
}

// quote returns when a job ends at the latest (UWS 1.1, 2.1.6): after the time that the
// queue expects jobs to take, or else after the longest that this job may run, from its
// start or from now. It is zero, unknown, without either and in a paused queue.
func (h *Handler) quote(j *job) time.Time {
	now := h.now()
	takes := cmp.Or(j.set.takes, time.Duration(j.duration())*time.Second)
	if takes == 0 {
		return time.Time{}
	}
	switch j.phase() {
	case executing:
		start, _ := j.ran()
		if t := start.Add(takes); t.After(now) {
			return stamp(t)
		}
		return stamp(now)
	case pending, queued:
		if j.q.Info().Paused.IsZero() {
			return stamp(now.Add(takes))
		}
	}
	return time.Time{}
}

// Check returns why the elements of UWS in a job file make no sense, nil if they
// do. The phase of a job with a damaged or lost job file is UNKNOWN: its
// elements cannot be believed, and clients ask again until an operator has
// mended it. Nobody gets its parameters and results here meanwhile, since its
// owner is not known for sure.
func Check(cut *queuejob.Job) error {
	if cut.Lost() {
		return errors.New("the job file is lost, and the elements of UWS with it")
	}
	for _, e := range cut.Extra {
		var err error
		switch e.Name {
		case elemID:
			if nameless(cut) {
				err = errors.New("no identifier of a job")
			}
		case elemCreated, elemDestroyed, elemArchived:
			_, err = parseTime(e.Value)
		case elemDuration:
			if n, e := strconv.ParseInt(e.Value, 10, 32); e != nil || n < 0 {
				err = errors.New("no number of seconds")
			}
		case elemPart:
			if p, ok := parsePart(e.Value); !ok || p.at+p.head+p.size > cut.Size {
				err = errors.New("no part of the payload")
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %.60q: %w", e.Name, e.Value, err)
		}
	}
	return nil
}

// nameless reports whether a damaged job file has lost the identifier of a job.
func nameless(cut *queuejob.Job) bool {
	id := cut.Extra.Value(elemID)
	_, err := queuejob.ParseID(id)
	return cut.Lost() || id != "" && err != nil && !isMade(id)
}

// Tick aborts jobs at the end of their execution duration, and destroys or
// archives jobs at their destruction. Call it a few times a second: its cost
// grows with the jobs due and in work.
func (h *Handler) Tick(ctx context.Context) error {
	h.ticking.Lock()
	defer h.ticking.Unlock()
	var errs error
	limits := map[*queuefs.Queue]map[queuejob.ID]limit{}
	for _, q := range h.svc.Timed() {
		v := viewOf(q)
		next, err := h.stopOverdue(ctx, v, h.limits[q])
		limits[q] = next
		err = errors.Join(err, h.destroyDue(ctx, v))
		if err != nil && !errors.Is(err, ledger.ErrNoQueue) && ctx.Err() == nil {
			errs = errors.Join(errs, fmt.Errorf("queue %s: %w", q.ID(), err))
		}
	}
	h.limits = limits
	return errors.Join(errs, ctx.Err())
}

// A limit is the end of the execution duration of a job in work.
type limit struct {
	changed time.Time // last event of the job
	allowed int64     // seconds by the settings of the queue
	began   time.Time
	until   time.Time // zero: no limit
}

// stopOverdue aborts jobs at the end of their execution duration. It returns the
// limits of those in work, for the next time.
func (h *Handler) stopOverdue(ctx context.Context, v view, known map[queuejob.ID]limit) (map[queuejob.ID]limit, error) {
	next := map[queuejob.ID]limit{}
	for _, id := range v.q.Leased() {
		l, err := v.limitOf(id, known[id])
		if errors.Is(err, ledger.ErrNoJob) {
			continue
		}
		if err != nil {
			return next, err
		}
		if l.until.IsZero() || h.o.Now().Before(l.until) {
			next[id] = l
			continue
		}
		_, err = v.q.AbortAttempt(ctx, id, l.began, "execution duration exceeded")
		if err != nil && !errors.Is(err, queuejob.ErrConflict) && !errors.Is(err, ledger.ErrNoJob) {
			return next, err
		}
	}
	return next, nil
}

// limitOf returns the limit of a job in work. It reads the job file only after
// a change.
func (v view) limitOf(id queuejob.ID, known limit) (limit, error) {
	_, changed := v.q.Status(id)
	if !known.changed.IsZero() && known.changed.Equal(changed) && known.allowed == v.set.duration {
		return known, nil
	}
	cut, err := v.q.Job(id)
	if err != nil {
		return limit{}, err
	}
	l := limit{changed: changed, allowed: v.set.duration, began: cut.Consumed}
	if j := v.listed(&cut); j != nil && j.phase() == executing {
		if d := j.duration(); d > 0 {
			l.until = cut.Consumed.Add(time.Duration(d) * time.Second)
		}
	}
	return l, nil
}

// dueAtOnce is how many jobs of a queue one Tick destroys.
const dueAtOnce = 1000

// destroyDue destroys or archives the due jobs. The next Tick tries failed ones
// again.
func (h *Handler) destroyDue(ctx context.Context, v view) error {
	ids, err := v.q.Due(ctx, h.now(), dueAtOnce)
	for _, id := range ids {
		if e := h.destroyNow(ctx, v, id); err == nil {
			err = e
		}
	}
	return err
}

// destroyNow destroys or archives a job if it is still due.
func (h *Handler) destroyNow(ctx context.Context, v view, id queuejob.ID) error {
	cut, err := v.q.Job(id)
	if errors.Is(err, ledger.ErrNoJob) {
		return nil
	}
	if err != nil {
		return err
	}
	defer h.lock(v.q, v.idOf(&cut))()
	cut, err = v.q.Job(id)
	if errors.Is(err, ledger.ErrNoJob) || err == nil && (cut.Destruction.IsZero() || cut.Destruction.After(h.now())) {
		return nil // it was changed meanwhile
	}
	if err != nil {
		return err
	}
	j := v.as(v.idOf(&cut), &cut)
	if err := j.destroy(ctx, h.now(), v.set.archive); err != nil {
		return fmt.Errorf("job %s: %w", j.id, err)
	}
	return nil
}

// timeForm is the form of times (UWS 1.1, 1.4): UTC, milliseconds. Comparisons
// use the same precision.
const timeForm = "2006-01-02T15:04:05.000Z"

func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func formatTime(t time.Time) string { return t.UTC().Format(timeForm) }

// timeForms are accepted: ISO 8601 as clients write it, UTC without a zone.
var timeForms = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999",
	"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02",
	"20060102T150405Z07:00", "20060102T150405", "20060102", "2006-01", "2006",
}

func parseTime(s string) (time.Time, error) {
	for _, form := range timeForms {
		if t, err := time.Parse(form, s); err == nil && t.Year() > 0 {
			if t = t.UTC(); t.Year() > 0 && t.Year() <= 9999 {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time such as 2026-01-31T12:00:00Z", s)
}

// A phase of UWS 1.1, 2.1.3.
type phase string

const (
	pending   phase = "PENDING"
	queued    phase = "QUEUED"
	executing phase = "EXECUTING"
	completed phase = "COMPLETED"
	failed    phase = "ERROR"
	aborted   phase = "ABORTED"
	held      phase = "HELD"
	suspended phase = "SUSPENDED" // never used
	archived  phase = "ARCHIVED"
	unknown   phase = "UNKNOWN"
)

var phases = []phase{pending, queued, executing, completed, failed, aborted, held, archived, suspended, unknown}

func parsePhase(s string) (phase, error) {
	for _, p := range phases {
		if strings.EqualFold(s, string(p)) {
			return p, nil
		}
	}
	return "", fmt.Errorf("%.40q is no phase", s)
}

// active reports whether a wait for the phase to change makes sense: by itself
// or by its client.
func (p phase) active() bool { return p == pending || p == queued || p == executing }

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// An identifier of a job made here contains its first number, so that no index
// is needed, and 88 secret random bits. It begins with no letter of "https",
// because a client strips them.
const (
	idNumber = 5  // bytes
	idSecret = 11 // bytes
	idLength = 27 // characters
)

// newID returns the identifier of a job made here.
func newID(n queuejob.ID) string {
	var b [idNumber + idSecret]byte
	for i := range idNumber {
		b[i] = byte(n >> (8 * (idNumber - 1 - i)))
	}
	rand.Read(b[idNumber:])
	return "u" + base32Lower.EncodeToString(b[:])
}

// numberOf returns the number in an identifier made here.
func numberOf(id string) (n queuejob.ID) {
	b, _ := base32Lower.DecodeString(id[1:])
	for _, octet := range b[:idNumber] {
		n = n<<8 | queuejob.ID(octet)
	}
	return n
}

// isMade reports whether s has the form of an identifier made here.
func isMade(s string) bool {
	if len(s) != idLength || s[0] != 'u' {
		return false
	}
	b, err := base32Lower.DecodeString(s[1:])
	return err == nil && base32Lower.EncodeToString(b) == s[1:]
}

// Limits, in octets.
const (
	maxParams = 256 << 10 // names and values of the parameters of a job
	maxLabel  = 1024      // a run identifier, a file name, a media type
)

// A pair is a parameter of a job.
type pair struct{ name, value string }

// checkName refuses bad names of parameters.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a parameter has no name")
	case len(name) > 256:
		return fmt.Errorf("parameter %.40q… has a name of more than 256 octets", name)
	case strings.ContainsAny(name, "\t\r\n"):
		return fmt.Errorf("the name of parameter %.40q is not one line", name)
	}
	return nil
}

// checkText refuses names and values with characters outside of XML.
func checkText(p pair) error {
	if why := notText(p.name); why != "" {
		return fmt.Errorf("the name of parameter %.40q %s", p.name, why)
	}
	if why := notText(p.value); why != "" {
		return fmt.Errorf("the value of parameter %.40q %s; what is no text comes as a file", p.name, why)
	}
	return nil
}

// notText returns why XML cannot carry s (XML 1.0, 2.2), "" if it can.
func notText(s string) string {
	if !utf8.ValidString(s) {
		return "is not UTF-8"
	}
	for _, r := range s {
		if !isChar(r) {
			return fmt.Sprintf("has %U, which XML cannot carry", r)
		}
	}
	return ""
}

// isChar reports whether XML has the character. DEL is refused, too.
func isChar(r rune) bool {
	return (r >= 0x20 || r == '\t' || r == '\n' || r == '\r') && r != 0x7f && r != 0xfffe && r != 0xffff
}

var escapePair = strings.NewReplacer(`\`, `\\`, `;`, `\;`, `=`, `\=`)

// formatPairs writes parameters as a sidecar.
func formatPairs(pairs []pair) string {
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(escapePair.Replace(p.name) + "=" + escapePair.Replace(p.value))
	}
	return b.String()
}

// parsePairs reads a sidecar by formatPairs; false for other text.
func parsePairs(s string) (pairs []pair, ok bool) {
	for s != "" {
		var p pair
		var end byte
		if p.name, s, end = cutPair(s, "=;"); end != '=' || p.name == "" {
			return nil, false
		}
		p.value, s, end = cutPair(s, ";")
		if end == ';' {
			s = strings.TrimPrefix(s, " ")
		}
		pairs = append(pairs, p)
	}
	return pairs, true
}

// cutPair returns s up to the first of the ends, and the end, 0 at the end of
// s.
func cutPair(s, ends string) (text, rest string, end byte) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case strings.IndexByte(ends, c) >= 0:
			return b.String(), s[i+1:], c
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", 0
}

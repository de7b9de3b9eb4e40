package job

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
)

// Errors of a change that the state of a job does not allow.
var (
	ErrNotPending = errors.New("job not pending")
	ErrConflict   = errors.New("job not in a state for that")
)

// Misplaced refuses a job for where it stands, and names the way out if there is one for
// all.
func Misplaced(id ID, is Status, refusal error) error {
	err := fmt.Errorf("%v: %w: it is %v", id, refusal, is)
	if refusal == ErrNotPending {
		err = fmt.Errorf("%w; requeue puts it back", err)
	}
	return err
}

// Enter moves the job to st and drops all data without a meaning there. The date of
// its last consumption stays (Cutie 0.3, 6.5).
func (j *Job) Enter(st Status) {
	j.Status = st
	if st != Pending {
		j.Unhold()
	}
	if st != Consumed {
		j.Lease, j.ConsumerKey = Lease{}, ""
	}
	if st != Deleted {
		j.Deleted = time.Time{}
	}
	if st == Pending {
		j.Consumer = ""
		j.Outcome, j.Finished, j.Transient, j.Results = 0, time.Time{}, false, nil
	}
}

// GoBack makes the job pending again.
func (j *Job) GoBack(t time.Time) {
	j.Enter(Pending)
	j.Message = ""
	j.Extra = Without(j.Extra, RequeuedAs)
	j.Requeued, j.Requeues = t, j.Requeues+1
}

// Delete takes the job out of the queue.
func (j *Job) Delete(t time.Time) {
	j.Enter(Deleted)
	j.Deleted = t
}

// StartOver makes the job pending again; a failed one has all its attempts again.
func (j *Job) StartOver(t time.Time) {
	if j.Outcome == Failed {
		j.Attempts = 0
	}
	j.GoBack(t)
}

// Retry makes the job pending again for another attempt, on hold until a time unless
// that is zero.
func (j *Job) Retry(t, until time.Time, message string) {
	j.GoBack(t)
	j.Message = message
	if !until.IsZero() {
		j.Hold(t, ForRetry, until)
	}
}

// ForRetry is the reason for the hold of a job between two attempts.
const ForRetry = "waits for another attempt"

// Hold lets consumers pass over the job, until a time unless that is zero. A job on
// hold keeps its date; its reason becomes why, unless why is empty. Hold returns false
// if nothing has changed.
func (j *Job) Hold(t time.Time, why string, until time.Time) bool {
	was := *j
	if j.Held.IsZero() {
		j.Held = t
	}
	if why != "" {
		j.HeldFor = why
	}
	j.HeldUntil = until
	return j.Held != was.Held || j.HeldFor != was.HeldFor || !j.HeldUntil.Equal(was.HeldUntil)
}

// Unhold ends the hold of the job. It returns false if there was none.
func (j *Job) Unhold() bool {
	held := !j.Held.IsZero()
	j.Held, j.HeldFor, j.HeldUntil = time.Time{}, "", time.Time{}
	return held
}

// A Conclusion is the report of a consumer on its job.
type Conclusion struct {
	Outcome   Outcome // Completed or Failed
	Message   string  // text, at most MaxMessage octets
	Transient bool    // another attempt may go better; only with Failed
	// RetryIn is the time until another attempt, at most home.MaxLease; nil leaves
	// it to the queue. Only with Transient.
	RetryIn *time.Duration
}

// Conclude ends the work on the job.
func (j *Job) Conclude(t time.Time, r Conclusion) {
	j.Lease, j.ConsumerKey = Lease{}, ""
	j.Outcome, j.Finished, j.Message, j.Transient = r.Outcome, t, r.Message, r.Transient
}

// LateResults is how long after an abort the consumer may still hand in the results
// that it has.
const LateResults = 15 * time.Minute

// Abort ends the work on the job without its consumer. The key of a lease stays, for
// late results (UWS 1.0, 2.1.4).
func (j *Job) Abort(t time.Time, why string) {
	key := j.Lease.Key
	j.Conclude(t, Conclusion{Outcome: Aborted, Message: why})
	j.Lease.Key = key
}

// MayAdd reports whether the token lets its holder add results to the job.
func (j *Job) MayAdd(token string, now time.Time) bool {
	if j.Outcome == Aborted && now.Before(j.Finished.Add(LateResults)) {
		return j.Status == Consumed && j.Lease.Key != "" && j.Lease.isKeyOf(token)
	}
	return j.Status == Consumed && j.Lease.Opens(token, now)
}

// Again returns a new job at the end of the queue with the payload of this one.
func (j *Job) Again(id ID, seq Seq, t time.Time) Job {
	return Job{ID: id, Queue: j.Queue, Status: Pending, Seq: seq, Filename: j.Filename, MediaType: j.MediaType, Submitter: j.Submitter,
		Sidecar: j.Sidecar, EmptySidecar: j.EmptySidecar, Size: j.Size, Digests: j.Digests, Batch: j.Batch, Owner: j.Owner, Submitted: t, Requeued: t, Requeues: j.Requeues + 1,
		Destruction: j.Destruction, Extra: With(j.Extra, RequeuedFrom, j.ID.String())}
}

// GiveWay names the successor of the job, to which its Destruction goes.
func (j *Job) GiveWay(to ID) {
	j.Destruction = time.Time{}
	j.Extra = With(j.Extra, RequeuedAs, to.String())
}

// A Lease is the time of a consumer for a job.
type Lease struct {
	Ends time.Time // zero: there is no lease; a key alone is of one that was aborted
	Key  string    // SHA-256, in hexadecimal, of the token of the consumer
}

// NewToken returns the proof of a lease for its consumer: 128 random bits. The job
// file, which is public, has only its digest.
func NewToken() string {
	var b [16]byte
	rand.Read(b[:])
	return string(base64.RawURLEncoding.AppendEncode(make([]byte, 0, 2*len(b)), b[:]))
}

// LeaseKey returns the part of a token kept in the job file.
func LeaseKey(token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(hex.AppendEncode(make([]byte, 0, 2*len(sum)), sum[:]))
}

// Opens reports whether the token is the one of the lease, and the lease not over.
func (l Lease) Opens(token string, now time.Time) bool {
	return l.isKeyOf(token) && now.Before(l.Ends)
}

func (l Lease) isKeyOf(token string) bool {
	return subtle.ConstantTimeCompare([]byte(LeaseKey(token)), []byte(l.Key)) == 1
}

// errorType is the written form of Job.Transient, by the words of UWS.
func errorType(transient bool) string {
	if transient {
		return "transient"
	}
	return "fatal"
}

func parseErrorType(s string) (transient bool, err error) {
	if s != "transient" && s != "fatal" {
		err = fmt.Errorf("%.40q is neither transient nor fatal", s)
	}
	return s == "transient", err
}

// MaxResults is how many results a job may have, and MaxResultName bounds the octets of
// the name of one.
const (
	MaxResults    = 100
	MaxResultName = 64
)

// A Result is a file from the consumer of a job: result/JOB/NAME below the
// directory of the queue.
type Result struct {
	Name      string // 1 to 64 of A-Z a-z 0-9 . _ -, and no dot first
	MediaType string // "" if none was given
	Size      int64  // octets
	SHA256    [32]byte
}

// String returns the result as it stands in a job file: name, octets, SHA-256
// and, unless it has none, the media type.
func (r Result) String() string {
	s := r.Name + " " + strconv.FormatInt(r.Size, 10) + " " + hex.EncodeToString(r.SHA256[:])
	if r.MediaType != "" {
		s += " " + r.MediaType
	}
	return s
}

// CheckResultName refuses malformed names of results, with [ErrBadName].
func CheckResultName(name string) error {
	ok := len(name) >= 1 && len(name) <= MaxResultName && name[0] != '.'
	for i := 0; i < len(name) && ok; i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
	}
	if !ok {
		return fmt.Errorf("%w: result %.80q: 1 to 64 letters, digits and . _ -, and no dot first", ErrBadName, name)
	}
	return nil
}

func parseResult(s string) (r Result, err error) {
	f := strings.SplitN(s, " ", 4)
	if len(f) < 3 {
		return r, fmt.Errorf("%.80q is not name, size and digest of a result", s)
	}
	if len(f) == 4 {
		r.MediaType = f[3]
	}
	r.Name = f[0]
	if err := CheckResultName(r.Name); err != nil {
		return r, err
	}
	if r.Size, err = strconv.ParseInt(f[1], 10, 64); err != nil || r.Size < 0 {
		return r, fmt.Errorf("%.40q is not a size", f[1])
	}
	b, err := hex.DecodeString(f[2])
	if err != nil || len(b) != len(r.SHA256) {
		return r, fmt.Errorf("%.80q is not a SHA-256", f[2])
	}
	copy(r.SHA256[:], b)
	return r, nil
}

// ErrorDetail returns the result in which the consumer of a failed or aborted job
// says more than a message can: the first one named error, or error.vot and the like.
func (j *Job) ErrorDetail() (Result, bool) {
	if j.Outcome == Failed || j.Outcome == Aborted {
		for _, r := range j.Results {
			if IsErrorDetail(r.Name) {
				return r, true
			}
		}
	}
	return Result{}, false
}

// IsErrorDetail reports whether a result of this name is the detail of an error.
func IsErrorDetail(name string) bool { return name == "error" || strings.HasPrefix(name, "error.") }

// MaxKey is the most characters of a key.
const MaxKey = 255

// CheckKey refuses a key with characters other than visible ASCII, and one without or
// with more than MaxKey of them. The error is [ErrBadName].
func CheckKey(key string) error {
	bad := key == "" || len(key) > MaxKey
	for i := 0; i < len(key) && !bad; i++ {
		bad = key[i] <= ' ' || key[i] >= 0x7f
	}
	if bad {
		return fmt.Errorf("%w: key %.40q is not 1 to %d visible ASCII characters", ErrBadName, key, MaxKey)
	}
	return nil
}

// PartKey returns the key of job n, from 1 on, of a submission of several jobs with one
// key.
func PartKey(key string, n int) string { return key + "#" + strconv.Itoa(n) }

// A KeySum stands for the key of a submission and its user in the index: the first octets of
// their SHA-256. 0 is no key. Two keys may have one sum; the job file has user and key.
type KeySum uint64

// SumOfKey returns the sum of a key, 0 for "". Each user has keys of his own; those without a
// name, "", have them in common.
func SumOfKey(user, key string) KeySum {
	if key == "" {
		return 0
	}
	if user != "" {
		key = user + "\x00" + key
	}
	sum := sha256.Sum256([]byte(key))
	return KeySum(max(binary.LittleEndian.Uint64(sum[:]), 1))
}

// ConsumerKey returns the part of a consumer's key kept in the job file: the SHA-256 of
// user and key, in hexadecimal.
func ConsumerKey(user, key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(user + "\x00" + key))
	return string(hex.AppendEncode(make([]byte, 0, 2*len(sum)), sum[:]))
}

// TokenFor returns the proof of the lease of a job taken with a key, in its present
// attempt: between two attempts a job is requeued. It is the same each
// time, so that no file has to keep it, and as hard to guess as the key.
func TokenFor(user, key, queue string, id ID, requeues int) string {
	mac := hmac.New(sha256.New, []byte(user+"\x00"+key))
	fmt.Fprintf(mac, "lease %s %v %d", queue, id, requeues)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// Meta is a submitter's description of a job.
type Meta struct {
	Filename  string // a label; only the part after the last slash is kept
	MediaType string
	Submitter string         // user agent
	Owner     string         // the submitting user; "" without a name
	Sidecar   string         // octets, at most MaxSidecar; see EmptySidecar
	Expect    []digest.Value // the payload must have these digests
	Batch     string

	EmptySidecar bool // there is a sidecar without octets

	Key   string      // names the submission, see [Job]; "" for none
	Extra anvl.Record // further elements of the job file, at most 16 KiB; no known ones

	Destruction time.Time             // see [Job]
	OnHold      bool                  // the job is on hold for [NotStarted]
	NotBefore   time.Time             // until then the job is on hold; zero: it is not
	Name        func(ID) anvl.Element // one more of Extra, made of the job's number; nil: none
}

// NotStarted is the reason for the hold of a job submitted on hold: it waits
// for its submitter. Releasing a selection of many jobs passes over it.
const NotStarted = "not started by its submitter"

// Limits of the metadata of a job, in bytes.
const (
	MaxSidecar = 1 << 20
	MaxLabel   = 1024
	maxExtra   = 16 << 10
)

// MaxMessage is the most octets of a message.
const MaxMessage = 16 << 10

// Check refuses metadata that could not be stored and read again, and makes the
// file name a label: of a path it is what stands behind the last "/". A backslash is a
// character of a name like any other.
func (m *Meta) Check() error {
	if len(m.Sidecar) > MaxSidecar {
		return fmt.Errorf("sidecar: %w: more than %d octets", ErrTooBig, MaxSidecar)
	}
	m.Filename = m.Filename[strings.LastIndexByte(m.Filename, '/')+1:]
	for _, s := range []*string{&m.Filename, &m.MediaType, &m.Submitter, &m.Owner, &m.Batch} {
		// Cleaning may make it longer.
		if *s = CleanLabel(*s); len(*s) > MaxLabel {
			return fmt.Errorf("%w: %.40q… is longer than %d octets", ErrTooBig, *s, MaxLabel)
		}
	}
	if m.Key != "" {
		if err := CheckKey(m.Key); err != nil {
			return err
		}
	}
	m.NotBefore = m.NotBefore.Truncate(time.Microsecond).UTC()
	if m.NotBefore.Year() > 9999 {
		return fmt.Errorf("%w: not before the year %d", ErrBadName, m.NotBefore.Year())
	}
	size := 0
	for _, x := range m.Extra {
		if x.Name == "" || slices.Contains(elements[:], elementName(x.Name)) {
			return fmt.Errorf("%w: element %.40q is not one to add to a job file", ErrBadName, x.Name)
		}
		size += len(x.Name) + len(x.Value)
	}
	if size > maxExtra {
		return fmt.Errorf("further elements: %w: more than %d octets", ErrTooBig, maxExtra)
	}
	return nil
}

// CheckText refuses a sidecar that is not text: each form of a state can say text as it
// is. The error wraps [ErrSidecar].
func CheckText(sidecar string) error {
	if !utf8.ValidString(sidecar) {
		return fmt.Errorf("%w: it is not UTF-8", ErrSidecar)
	}
	for i, c := range sidecar {
		switch {
		case c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c == 0x7f:
			return fmt.Errorf("%w: control character %#02x at octet %d", ErrSidecar, c, i)
		case c == 0xfffe || c == 0xffff: // XML 1.0 has no place for them
			return fmt.Errorf("%w: %U at octet %d", ErrSidecar, c, i)
		}
	}
	return nil
}

// Job returns a pending job as described, yet without number and date. Start gives it
// the rest.
func (m *Meta) Job() Job {
	return Job{Status: Pending, Filename: m.Filename, MediaType: m.MediaType, Submitter: m.Submitter, Owner: m.Owner,
		Sidecar: m.Sidecar, EmptySidecar: m.EmptySidecar && m.Sidecar == "", Batch: m.Batch, Key: m.Key, Destruction: m.Destruction}
}

// Start gives a job of the description its number and date, and all that depends on them.
func (m *Meta) Start(j *Job, id ID, seq Seq, t time.Time) {
	j.ID, j.Seq, j.Submitted = id, seq, t
	if j.Extra = m.Extra; m.Name != nil {
		j.Extra = append(slices.Clip(j.Extra), m.Name(id))
	}
	switch {
	case m.OnHold:
		j.Hold(t, NotStarted, time.Time{})
	case !m.NotBefore.IsZero():
		j.Hold(t, "", m.NotBefore)
	}
}

// CleanLabel replaces characters without a place in documents.
func CleanLabel(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f {
			return strings.Map(func(r rune) rune {
				if r < 0x20 || r == 0x7f || r == 0xfffe || r == 0xffff {
					return utf8.RuneError
				}
				return r
			}, strings.ToValidUTF8(s, "\uFFFD"))
		}
	}
	return s
}

// CleanText makes a message fit for every document. Lines stay lines.
func CleanText(s string) (string, error) {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > MaxMessage {
		return "", fmt.Errorf("%w: more than %d octets", ErrTooBig, MaxMessage)
	}
	return s, nil
}

// Unlimited is a limit set to none.
const Unlimited = -1

// Limits are those of a user in a queue. 0 is not set, [Unlimited] no limit. As
// text they are a list such as
//
//	pending=100,active=1000,upload=1000000000,run=3600,life=720
//
// with 0 for no limit.
type Limits struct {
	Pending int64 // jobs made and not started (UWS 1.1, 2.1.3)
	Active  int64 // jobs waiting for a consumer or in work
	Upload  int64 // bytes of the payloads of all these jobs together
	Run     int64 // seconds that a job may run
	Life    int64 // hours from the creation of a job to its destruction
}

// maxLimit is the largest number in the text of Limits, so that products of
// units fit.
const maxLimit = 1 << 50

// mostOf are the largest values; run fits the document of a job, and life a time
// before the year 9999.
var mostOf = map[string]int64{"pending": maxLimit, "active": maxLimit, "upload": maxLimit, "run": 1<<31 - 1, "life": 1_000_000}

// names returns the limits by their names, in the order of the text.
func (l *Limits) names() []struct {
	name string
	n    *int64
} {
	return []struct {
		name string
		n    *int64
	}{{"pending", &l.Pending}, {"active", &l.Active}, {"upload", &l.Upload}, {"run", &l.Run}, {"life", &l.Life}}
}

// ParseLimits reads the text of [Limits.String], in any order; "" sets none.
func ParseLimits(text string) (l Limits, err error) {
	if text == "" {
		return l, nil
	}
parts:
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		for _, one := range l.names() {
			if one.name != name {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case err != nil || n < 0 || n > mostOf[name]:
				return Limits{}, fmt.Errorf("%w: limit %.40q is not a number from 0 to %d", ErrBadName, part, mostOf[name])
			case *one.n != 0:
				return Limits{}, fmt.Errorf("%w: limit %s is repeated", ErrBadName, name)
			case n == 0:
				n = Unlimited
			}
			*one.n = n
			continue parts
		}
		return Limits{}, fmt.Errorf("%w: limit %.40q is none of pending, active, upload, run, life, each with = and a number", ErrBadName, part)
	}
	return l, nil
}

// String returns the limits that are set.
func (l Limits) String() string {
	var b strings.Builder
	for _, one := range l.names() {
		if *one.n == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(one.name + "=" + strconv.FormatInt(max(*one.n, 0), 10))
	}
	return b.String()
}

// Over returns l, completed by under where l sets nothing.
func (l Limits) Over(under Limits) Limits {
	to, from := l.names(), under.names()
	for i := range to {
		if *to[i].n == 0 {
			*to[i].n = *from[i].n
		}
	}
	return l
}

// MaxQueueID is the longest cleaned queue identifier, in octets; it leaves
// space in a file name for the additions of mirrors.
const MaxQueueID = 200

// reserved prefixes of file and property names, compared without case (Cutie
// 0.3, 6 and 6.2; the text prints "merrit").
var reserved = []string{"cutie", "cut", "merrit", "mrt"}

// CleanQueueID makes a directory name and URL segment of a queue identifier by
// Pairtree cleaning: "/" becomes "=", ":" becomes "+", "." becomes ",", and
// octets that are not visible ASCII or stand in file names for something else
// become ^xx. A name that is clean already maps to itself. Names that are
// empty, longer than 200 octets when cleaned, not UTF-8, or that begin with a
// reserved prefix are refused with an error that wraps [ErrBadName].
func CleanQueueID(name string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("%w: queue identifier %.60q %s", ErrBadName, name, why)
	}
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > 3*MaxQueueID:
		return bad("is too long")
	case !utf8.ValidString(name):
		return bad("is not UTF-8")
	case strings.Trim(name, "./") == "":
		return bad("names no queue")
	}
	low := strings.ToLower(name)
	for _, p := range reserved {
		if strings.HasPrefix(low, p) {
			return bad("begins with the reserved prefix " + p)
		}
	}
	clean := isClean(name)
	if clean && len(name) <= MaxQueueID {
		return name, nil
	}
	out := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == 0 || c == '\n' || c == '\r':
			return bad("has a control character")
		case c == '/':
			out = append(out, '=')
		case c == ':':
			out = append(out, '+')
		case c == '.':
			out = append(out, ',')
		case !clean && strings.IndexByte(`"*+,<=>?\^|`, c) >= 0, c <= 0x20, c >= 0x7f, c == '%', c == '#', c == ';', c == '&', c == '\'':
			out = fmt.Appendf(out, "^%02x", c)
		default:
			out = append(out, c)
		}
	}
	if len(out) > MaxQueueID {
		return bad("is too long")
	}
	return string(out), nil
}

// isClean reports whether s has only characters left or made by cleaning.
func isClean(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '^':
			if i+2 >= len(s) || !hexDigit(s[i+1]) || !hexDigit(s[i+2]) {
				return false
			}
		case strings.IndexByte("\"*<>?\\|/:.%#;&'", c) >= 0, c <= 0x20, c >= 0x7f:
			return false
		}
	}
	return true
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
}

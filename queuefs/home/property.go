package home

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
)

// A Property is one of the properties of a queue. Its row in [Properties] is all that
// queue-info.txt, states, requests, cutie set, OpenAPI, help and the Go client know of it.
type Property struct {
	Name   string   // in states and requests
	inFile string   // in queue-info.txt; "": Name
	Option string   // of cutie set; "": there is none
	Words  []string // the values of a text, the first by default; nil: any text
	Most   int64    // of a number
	URI    bool     // a text is a URL
	Fixed  bool     // since the queue was made
	Unset  string   // what a state says when it is not set; "": nothing
	always bool     // queue-info.txt says false, too
	Help   string   // with the placeholder of the option between back quotes

	// field returns a *string, *int64 (-1: not set), *Count, *int, *bool, *time.Time, *time.Duration
	// (whole seconds), *job.Acknowledge, *job.Limits or *digest.Set.
	field func(*QueueInfo) any
}

// Properties are all properties of a queue in the order of queue-info.txt and of states.
// Changes are in force at once.
var Properties = []Property{
	{Name: "name", Option: "name", Help: "`name` for people", field: func(q *QueueInfo) any { return &q.Name }},
	{Name: "identifier", Fixed: true, Help: "what names the queue", field: func(q *QueueInfo) any { return &q.Identifier }},
	{Name: "description", Option: "description", Help: "`text` about the queue", field: func(q *QueueInfo) any { return &q.Description }},
	{Name: "cullingSizeThreshold", Option: "size", Most: math.MaxInt64, Unset: "-1",
		Help: "`number` of processed jobs to keep; -1 for all", field: func(q *QueueInfo) any { return &q.CullingSize }},
	{Name: "cullingAgeThreshold", Option: "age", Most: MaxHours, Unset: "-1",
		Help: "`hours` to keep processed jobs at least; -1 for unset", field: func(q *QueueInfo) any { return &q.CullingAge }},
	{Name: "verifyOnRead", Option: "verify-on-read", always: true,
		Help: "verify the digests of large jobs, too, when they are handed out", field: func(q *QueueInfo) any { return &q.VerifyOnRead }},
	{Name: "verifyOnWrite", Option: "verify-on-write", always: true,
		Help: "read each payload again before its submission is answered", field: func(q *QueueInfo) any { return &q.VerifyOnWrite }},
	{Name: "paused", Help: "time since which no job is handed out", field: func(q *QueueInfo) any { return &q.Paused }},
	{Name: "closed", Help: "refuse submissions", field: func(q *QueueInfo) any { return &q.Closed }},
	{Name: "acknowledge", Option: "acknowledge", Words: []string{"none", "required", "timeout"}, Unset: "none",
		Help: "what a lease that ends without a report means: `none|required|timeout`", field: func(q *QueueInfo) any { return &q.Acknowledge }},
	{Name: "leaseDuration", inFile: "lease", Option: "lease", Most: int64(MaxLease / time.Second),
		Help: "default `time` of a lease; 0 for unset", field: func(q *QueueInfo) any { return &q.Lease }},
	{Name: "maxAttempts", Option: "max-attempts", Most: 1_000_000,
		Help: "`number` of times to hand a job out; 0 for no limit", field: func(q *QueueInfo) any { return &q.MaxAttempts }},
	{Name: "limits", Option: "limits", Help: "`list` of limits of each user, such as pending=100,active=1000; see cutie help limits",
		field: func(q *QueueInfo) any { return &q.Limits }},
	{Name: "retryDelay", Option: "retry-delay", Most: int64(MaxLease / time.Second),
		Help: "`time` before the second attempt; 0 for 10s, and none after a lease", field: func(q *QueueInfo) any { return &q.RetryDelay }},
	{Name: "retryFactor", Option: "retry-factor", Most: 100,
		Help: "`number` by which the delay grows with each attempt; 0 for 2", field: func(q *QueueInfo) any { return &q.RetryFactor }},
	{Name: "retryMax", Option: "retry-max", Most: int64(MaxLease / time.Second),
		Help: "longest `time` before an attempt; 0 for 1h", field: func(q *QueueInfo) any { return &q.RetryMax }},
	{Name: "callback", Option: "callback", URI: true,
		Help: "`URI` to post changes of jobs to, of which readers see scheme and host; empty for none", field: func(q *QueueInfo) any { return &q.Callback }},
	{Name: "digests", Option: "digests", Help: "`types` of digests to compute of every payload beside SHA-256, such as \"SHA-256 MD5\"; empty for none",
		field: func(q *QueueInfo) any { return &q.Digests }},
	{Name: "dumps", Option: "dumps",
		Help:  "`sets` published with dumps: pending, replica, pending,replica or none; empty for those of cutie serve --dumps",
		field: func(q *QueueInfo) any { return &q.Dumps }},
	{Name: "uwsVersion", Option: "uws-version", Words: []string{"1.1", "1.0"},
		Help: "`1.1|1.0`: version of UWS, 1.0 for clients of no other", field: func(q *QueueInfo) any { return &q.UWS.Version }},
	{Name: "uwsJdl", Option: "uws-jdl", Words: []string{"form", "payload"},
		Help: "`form|payload`: what a job has: parameters, or one opaque parameter", field: func(q *QueueInfo) any { return &q.UWS.JDL }},
	{Name: "uwsExecutionDuration", Option: "uws-execution-duration", Most: math.MaxInt32,
		Help: "`number` of seconds that a job may run; 0: any time", field: func(q *QueueInfo) any { return &q.UWS.ExecutionDuration }},
	{Name: "uwsMaxExecutionDuration", Option: "uws-max-execution-duration", Most: math.MaxInt32,
		Help: "`number` of seconds that a client may ask for; 0: any time", field: func(q *QueueInfo) any { return &q.UWS.MaxExecutionDuration }},
	{Name: "uwsDestruction", Option: "uws-destruction", Most: maxLife,
		Help:  "`number` of hours until a job is destroyed; 0: never; by default the culling age, or 720",
		field: func(q *QueueInfo) any { return &q.UWS.Destruction }},
	{Name: "uwsMaxDestruction", Option: "uws-max-destruction", Most: maxLife,
		Help: "`number` of hours until the destruction that a client may ask for; 0: see limits", field: func(q *QueueInfo) any { return &q.UWS.MaxDestruction }},
	{Name: "uwsArchive", Option: "uws-archive", Words: []string{"false", "true"},
		Help: "`false|true`: whether a job is kept as ARCHIVED at its destruction, with its parameters", field: func(q *QueueInfo) any { return &q.UWS.Archive }},
	{Name: "uwsQuote", Option: "uws-quote", Most: math.MaxInt32,
		Help: "`number` of seconds a job is expected to take, the quote of jobs; by default their execution duration", field: func(q *QueueInfo) any { return &q.UWS.Quote }},
	{Name: "created", Fixed: true, Help: "when the queue was made", field: func(q *QueueInfo) any { return &q.Created }},
}

// maxLife is the longest life of a job of UWS, in hours: 114 years.
const maxLife = 1_000_000

// PropertyNamed returns the property of a name in states and requests, or nil.
func PropertyNamed(name string) *Property {
	for i := range Properties {
		if Properties[i].Name == name {
			return &Properties[i]
		}
	}
	return nil
}

// A Kind is what the values of a property are.
type Kind uint8

const (
	Text Kind = iota
	Number
	Seconds
	Truth // true or false
	Date
)

// Kind returns what the values of the property are.
func (p *Property) Kind() Kind {
	switch p.field(new(QueueInfo)).(type) {
	case *int64, *int, *Count:
		return Number
	case *time.Duration:
		return Seconds
	case *bool:
		return Truth
	case *time.Time:
		return Date
	}
	return Text
}

// Append appends the value of the property to dst, and nothing if it is not set.
func (p *Property) Append(dst []byte, info *QueueInfo) []byte {
	number := func(n, unset int64) []byte {
		if n == unset {
			return dst
		}
		return strconv.AppendInt(dst, n, 10)
	}
	switch v := p.field(info).(type) {
	case *string:
		return append(dst, *v...)
	case *Count:
		return append(dst, *v...)
	case *int64:
		return number(*v, -1)
	case *int:
		return number(int64(*v), 0)
	case *bool:
		if !*v && !p.always {
			return dst
		}
		return strconv.AppendBool(dst, *v)
	case *time.Time:
		if v.IsZero() {
			return dst
		}
		return job.AppendTime(dst, *v)
	case *time.Duration:
		if *v%time.Second != 0 {
			return append(dst, v.String()...) // which Set refuses
		}
		return number(int64(*v/time.Second), 0)
	case *job.Acknowledge:
		if *v == job.AckNone {
			return dst
		}
		return append(dst, v.String()...)
	case *job.Limits:
		return append(dst, v.String()...)
	case *digest.Set:
		return append(dst, FormatDigests(*v)...)
	}
	panic("home: property " + p.Name + " has a field of another type")
}

// Set gives the property a value, as Append writes it; "" unsets it. The error begins with
// the name of the property, and is [job.ErrBadName] or [job.ErrTooBig].
func (p *Property) Set(info *QueueInfo, value string) error { return p.set(info, p.Name, value) }

// set is Set, for errors that call the property by the given name.
func (p *Property) set(info *QueueInfo, name, value string) (err error) {
	number := func(unit string) (n int64) {
		if value == "" || value == p.Unset {
			return -1
		}
		if n, err = strconv.ParseInt(value, 10, 64); err != nil || n < 0 || n > p.Most {
			err = wrong("%s is %.40q, not %s from 0 to %d", name, value, unit, p.Most)
		}
		return n
	}
	if p.Words != nil && value != "" && !slices.Contains(p.Words, value) {
		return wrong("%s is %.40q, neither %s", name, value, strings.Join(p.Words, " nor "))
	}
	switch v := p.field(info).(type) {
	case *string:
		if *v, err = p.clean(name, value); v == &info.Dumps {
			*v, err = ParseDumps(value)
		}
	case *Count:
		number("a number")
		*v = Count(value)
	case *int64:
		*v = number("a number")
	case *int:
		*v = int(max(number("a number"), 0))
	case *bool:
		if *v, err = strconv.ParseBool(strings.ToLower(cmp.Or(value, "false"))); err != nil {
			err = wrong("%s is %.40q, neither true nor false", name, value)
		}
	case *time.Time:
		if *v = (time.Time{}); value != "" {
			t, bad := job.ParseTime(value)
			if *v = t.Truncate(time.Microsecond); bad != nil {
				err = wrong("%s is %.40q, not a time such as 2026-11-25T08:00:00Z", name, value)
			}
		}
	case *time.Duration:
		*v = time.Duration(min(max(number("whole seconds"), 0), p.Most)) * time.Second
	case *job.Acknowledge:
		*v, err = job.ParseAcknowledge(cmp.Or(value, p.Words[0]))
	case *job.Limits:
		*v, err = job.ParseLimits(value)
	case *digest.Set:
		*v, err = ParseDigests(value)
	}
	return err
}

// clean returns a text without characters that documents cannot have. It refuses long ones,
// and URIs that make no sense or tell secrets.
func (p *Property) clean(name, text string) (string, error) {
	if p.URI {
		return text, checkURI(name, text)
	}
	return text, cleanTexts(name, &text)
}

// wrong returns an error for a value that makes no sense.
func wrong(format string, args ...any) error { return valueError(fmt.Sprintf(format, args...)) }

type valueError string

func (e valueError) Error() string        { return string(e) }
func (e valueError) Is(target error) bool { return target == job.ErrBadName }

// Check refuses values too large or out of range, and cleans texts.
func (info *QueueInfo) Check() error {
	var text []byte
	for i := range Properties {
		p := &Properties[i]
		text = p.Append(text[:0], info)
		if err := p.Set(info, string(text)); err != nil {
			return err
		}
	}
	return info.together()
}

// together refuses values that exclude each other.
func (info *QueueInfo) together() error {
	if info.UWS.Version == "1.0" && info.UWS.Archive == "true" {
		return wrong("uwsArchive is true, and version 1.0 has no phase for it")
	}
	return nil
}

// Elements are all properties in the form and order of queue-info.txt; an empty
// value is a property not set.
func (info *QueueInfo) Elements() anvl.Record {
	list := make(anvl.Record, len(Properties))
	for i := range Properties {
		p := &Properties[i]
		list[i] = anvl.Element{Name: cmp.Or(p.inFile, p.Name), Value: string(p.Append(nil, info))}
	}
	return list
}

// Text returns a new property file.
func (info *QueueInfo) Text() []byte { return rewrite(new(anvl.Document), info.Elements()) }

// ParseQueue reads the property file of a queue (Cutie 0.3, 6.4); Created is zero
// if the file does not say it.
func ParseQueue(id string, data []byte) (QueueInfo, error) {
	info := NewQueue(id, time.Time{})
	r, err := anvl.ParseRecord(data)
	if err != nil {
		return info, err
	}
	// An emptied or truncated file must not pass for one with all defaults.
	if info.Identifier = r.Value("identifier"); info.Identifier == "" {
		return info, errors.New("no identifier")
	}
	var errs []error
	for i := range Properties {
		name := cmp.Or(Properties[i].inFile, Properties[i].Name)
		if v := r.Value(name); v != "" {
			errs = append(errs, Properties[i].set(&info, name, v))
		}
	}
	return info, errors.Join(append(errs, info.together())...)
}

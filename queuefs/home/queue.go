package home

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
)

// Limits and defaults of the properties of a queue.
const (
	MaxLease     = 30 * 24 * time.Hour               // the longest lease
	DefaultLease = 15 * time.Minute                  // of a queue without a setting, if it needs one
	DefaultRetry = 10 * time.Second                  // wait after a transient failure, of a queue without a setting
	MaxRetry     = time.Hour                         // the longest wait of a queue without a setting
	MaxHours     = int64(1<<63-1) / int64(time.Hour) // the largest age in hours to fit a duration

	maxAttempts   = 1_000_000
	defaultFactor = 2
	maxFactor     = 100
)

// QueueInfo are the settings of a queue (Cutie 0.3, 3.2 and 6.4).
type QueueInfo struct {
	ID                          string // cleaned; made from Identifier if empty
	Identifier                  string // as given; ID if empty
	Name, Description           string
	CullingSize                 int64 // processed jobs to keep; -1 unset: never cull
	CullingAge                  int64 // hours; -1 unset
	VerifyOnRead, VerifyOnWrite bool
	Paused                      time.Time       // since then no job is handed out; zero: it runs
	Closed                      bool            // refuses submissions
	Acknowledge                 job.Acknowledge // meaning of a consumer's silence
	Lease                       time.Duration   // default where a lease is needed; 0: 15 min
	Limits                      job.Limits      // of each user
	MaxAttempts                 int             // hand-outs after which a lapsed lease or a transient failure fails the job; 0: no limit
	RetryDelay                  time.Duration   // wait before the second attempt; 0: DefaultRetry, none after a lapsed lease
	RetryFactor                 int             // of the wait, for each further attempt; 0: 2
	RetryMax                    time.Duration   // longest wait; 0: an hour
	Callback                    string          // URL to be told of changes, or what everybody may know of it; "" for none
	Digests                     digest.Set      // computed of every payload, beside SHA-256
	Dumps                       string          // sets of resources with dumps, see ParseDumps; "": as all queues have them
	UWS                         UWS             // for clients of UWS
	Created                     time.Time
}

// NewQueue returns the properties of a queue without settings.
func NewQueue(id string, created time.Time) QueueInfo {
	return QueueInfo{ID: id, Identifier: id, CullingSize: -1, CullingAge: -1, Created: created}
}

// LeaseFor returns the duration of a lease, for a consumer asking for d; 0 leaves
// it to the queue, and the result may be 0 for none.
func (info QueueInfo) LeaseFor(d time.Duration) time.Duration {
	switch {
	case d > 0:
		return d
	case info.Acknowledge == job.AckNone:
		return 0
	case info.Lease > 0:
		return info.Lease
	}
	return DefaultLease
}

// RetryFailed returns the wait after a transient failure of the given attempt.
func (info QueueInfo) RetryFailed(attempt int) time.Duration {
	most := cmp.Or(info.RetryMax, MaxRetry)
	factor := time.Duration(cmp.Or(info.RetryFactor, defaultFactor))
	wait := cmp.Or(info.RetryDelay, DefaultRetry)
	for n := 1; n < attempt && factor > 1 && wait < most; n++ {
		wait *= factor
	}
	return min(wait, most)
}

// RetryLapsed returns the wait after the given attempt has ended with its lease. The
// lease was a wait already, so there is none unless RetryDelay is set.
func (info QueueInfo) RetryLapsed(attempt int) time.Duration {
	if info.RetryDelay == 0 {
		return 0
	}
	return info.RetryFailed(attempt)
}

// Check refuses values too large or out of range, and cleans texts.
func (info *QueueInfo) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{job.ErrBadName}, args...)...)
	}
	switch {
	case info.CullingSize < -1 || info.CullingAge < -1:
		return bad("negative culling threshold")
	case info.CullingAge > MaxHours:
		return bad("culling age of %d hours is more than %d", info.CullingAge, MaxHours)
	case info.Acknowledge > job.AckTimeout:
		return bad("%v", info.Acknowledge)
	case info.Lease < 0 || info.Lease > MaxLease || info.Lease%time.Second != 0:
		return bad("lease %v is not whole seconds from 0 to %d", info.Lease, MaxLease/time.Second)
	case info.MaxAttempts < 0 || info.MaxAttempts > maxAttempts:
		return bad("maximum of attempts %d is not from 0 to %d", info.MaxAttempts, maxAttempts)
	case info.RetryDelay < 0 || info.RetryDelay > MaxLease || info.RetryDelay%time.Second != 0:
		return bad("retry delay %v is not whole seconds from 0 to %d", info.RetryDelay, MaxLease/time.Second)
	case info.RetryFactor < 0 || info.RetryFactor > maxFactor:
		return bad("retry factor %d is not from 0 to %d", info.RetryFactor, maxFactor)
	case info.RetryMax < 0 || info.RetryMax > MaxLease || info.RetryMax%time.Second != 0:
		return bad("longest retry delay %v is not whole seconds from 0 to %d", info.RetryMax, MaxLease/time.Second)
	}
	info.Digests &^= digest.SetOf(digest.SHA256)
	var err error
	if info.Dumps, err = ParseDumps(info.Dumps); err != nil {
		return err
	}
	if err := info.UWS.check(); err != nil {
		return bad("%v", err)
	}
	info.Paused = info.Paused.Truncate(time.Microsecond).UTC()
	if y := info.Paused.Year(); y < 0 || y > 9999 {
		return bad("paused in the year %d", y)
	}
	if err := checkURI("callback", info.Callback); err != nil {
		return err
	}
	return cleanTexts("queue", &info.Identifier, &info.Name, &info.Description)
}

// Text returns a new property file.
func (info *QueueInfo) Text() []byte { return rewrite(new(anvl.Document), info.Elements()) }

// Elements are all properties in the form and order of queue-info.txt; an empty
// value is a property not set.
func (info *QueueInfo) Elements() anvl.Record {
	number := func(n, unset int64) string {
		if n == unset {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	paused, closed, ack := "", "", ""
	if !info.Paused.IsZero() {
		paused = job.FormatTime(info.Paused)
	}
	if info.Closed {
		closed = "true"
	}
	if info.Acknowledge != job.AckNone {
		ack = info.Acknowledge.String()
	}
	list := anvl.Record{
		{Name: "name", Value: info.Name},
		{Name: "identifier", Value: info.Identifier},
		{Name: "description", Value: info.Description},
		{Name: "cullingSizeThreshold", Value: number(info.CullingSize, -1)},
		{Name: "cullingAgeThreshold", Value: number(info.CullingAge, -1)},
		{Name: "verifyOnRead", Value: strconv.FormatBool(info.VerifyOnRead)},
		{Name: "verifyOnWrite", Value: strconv.FormatBool(info.VerifyOnWrite)},
		{Name: "paused", Value: paused},
		{Name: "closed", Value: closed},
		{Name: "acknowledge", Value: ack},
		{Name: "lease", Value: number(int64(info.Lease/time.Second), 0)},
		{Name: "maxAttempts", Value: number(int64(info.MaxAttempts), 0)},
		{Name: "limits", Value: info.Limits.String()},
		{Name: "retryDelay", Value: number(int64(info.RetryDelay/time.Second), 0)},
		{Name: "retryFactor", Value: number(int64(info.RetryFactor), 0)},
		{Name: "retryMax", Value: number(int64(info.RetryMax/time.Second), 0)},
		{Name: "callback", Value: info.Callback},
		{Name: "digests", Value: FormatDigests(info.Digests)},
		{Name: "dumps", Value: info.Dumps},
	}
	for i, p := range UWSProperties {
		list.Add(p.Name, info.UWS[i])
	}
	list.Add("created", job.FormatTime(info.Created))
	return list
}

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
	info.Name, info.Description, info.Callback = r.Value("name"), r.Value("description"), r.Value("callback")
	var errs []error
	number := func(name string, to *int64) {
		if v := r.Value(name); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 0 {
				errs = append(errs, fmt.Errorf("%s: %.40q is not a number", name, v))
				return
			}
			*to = n
		}
	}
	var lease, attempts, delay, factor, longest int64
	number("cullingSizeThreshold", &info.CullingSize)
	number("cullingAgeThreshold", &info.CullingAge)
	number("lease", &lease)
	number("maxAttempts", &attempts)
	number("retryDelay", &delay)
	number("retryFactor", &factor)
	number("retryMax", &longest)
	seconds := func(n int64) time.Duration { return time.Duration(min(n, int64(MaxLease/time.Second)+1)) * time.Second }
	info.Lease, info.RetryDelay, info.RetryMax = seconds(lease), seconds(delay), seconds(longest)
	info.RetryFactor = int(min(factor, maxFactor+1))
	info.MaxAttempts = int(min(attempts, maxAttempts+1))
	truth := func(name string, to *bool) {
		if v := r.Value(name); v != "" {
			b, err := strconv.ParseBool(strings.ToLower(v))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %.40q is neither true nor false", name, v))
			}
			*to = b
		}
	}
	truth("verifyOnRead", &info.VerifyOnRead)
	truth("verifyOnWrite", &info.VerifyOnWrite)
	truth("closed", &info.Closed)
	date := func(name string, to *time.Time) {
		if v := r.Value(name); v != "" {
			t, err := job.ParseTime(v)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
			*to = t
		}
	}
	date("paused", &info.Paused)
	date("created", &info.Created)
	if v := r.Value("acknowledge"); v != "" {
		if info.Acknowledge, err = job.ParseAcknowledge(v); err != nil {
			errs = append(errs, err)
		}
	}
	if info.Limits, err = job.ParseLimits(r.Value("limits")); err != nil {
		errs = append(errs, err)
	}
	if info.Digests, err = ParseDigests(r.Value("digests")); err != nil {
		errs = append(errs, err)
	}
	if info.Dumps, err = ParseDumps(r.Value("dumps")); err != nil {
		errs = append(errs, err)
	}
	for i, p := range UWSProperties {
		info.UWS[i] = r.Value(p.Name)
	}
	if err := info.UWS.check(); err != nil {
		errs = append(errs, err)
	}
	return info, errors.Join(errs...)
}

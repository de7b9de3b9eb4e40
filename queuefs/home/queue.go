package home

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

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

	defaultFactor = 2
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

// Settings are the properties of a queue by a reading of queue-info.txt. They are not
// changed once in use.
type Settings struct {
	Reading[QueueInfo]          // without its value
	SHA256             [32]byte // of the text
	Made               bool     // nothing was known, the properties are made up
	dated              bool     // the file has the time of creation

	rules                unique.Handle[QueueInfo] // without the names: many queues have the same
	id, identifier, name string
	created              time.Time // also if the file has none
}

// MaxJournaled is up to where a queue-info.txt travels in the journal, in bytes.
const MaxJournaled = 16 << 10

// NewSettings returns the settings of a reading. A file without the time of creation
// has the known one, or else the time it was written.
func NewSettings(r Reading[QueueInfo], created time.Time) *Settings {
	s := &Settings{Reading: r, SHA256: sha256.Sum256(r.Text)}
	var info QueueInfo
	if r.Value != nil {
		info = *r.Value
	}
	s.id, s.identifier, s.name = info.ID, info.ID, info.ID // of most queues
	if info.Identifier != s.id {
		s.identifier = strings.Clone(info.Identifier)
	}
	if info.Name != s.id {
		s.name = strings.Clone(info.Name)
	}
	s.Value, s.created, s.dated = nil, info.Created, !info.Created.IsZero()
	if !s.Dated() {
		s.created = r.Written
		s.Date(created)
	}
	info.ID, info.Identifier, info.Name, info.Created = "", "", "", time.Time{}
	s.rules = unique.Make(info)
	return s
}

// Info returns the properties, with the time of creation.
func (s *Settings) Info() QueueInfo {
	info := s.Rules()
	info.ID, info.Identifier, info.Name, info.Created = s.id, s.identifier, s.name, s.created
	return info
}

// Rules is Info without the three names and the time of creation.
func (s *Settings) Rules() QueueInfo { return s.rules.Value() }

// Names are the identifier as it was given, and the name.
func (s *Settings) Names() [2]string { return [2]string{s.identifier, s.name} }

// Created returns when the queue was made.
func (s *Settings) Created() time.Time { return s.created }

// Facts are the published facts of the file.
func (s *Settings) Facts() job.Facts {
	return job.Facts{Length: int64(len(s.Text)), SHA256: s.SHA256, Type: job.FileType, Modified: s.Written}
}

// Dated reports whether the file has the time of creation.
func (s *Settings) Dated() bool { return s.dated }

// Date sets the known time of creation if the file has none: the time of the file is
// later once it was edited.
func (s *Settings) Date(known time.Time) {
	if !s.Dated() && !known.IsZero() {
		s.created = known
	}
}

// UWS are the properties of a queue for clients of UWS, as they were given; "" is the
// default.
type UWS struct {
	Version              string // 1.1 or 1.0
	JDL                  string // form or payload
	ExecutionDuration    Count  // seconds
	MaxExecutionDuration Count  // seconds
	Destruction          Count  // hours
	MaxDestruction       Count  // hours
	Archive              string // false or true
	Quote                Count  // seconds
}

// A Count is a number as it was given; "" is not set, which 0 is not.
type Count string

// Or returns the number, or absent if it is not set.
func (c Count) Or(absent int64) int64 {
	if n, err := strconv.ParseInt(string(c), 10, 64); err == nil {
		return n
	}
	return absent
}

// maxTombstoneAge is in hours.
const maxTombstoneAge = 876_000

// ServiceInfo are the properties of the service (Cutie 0.3, 3.1 and 6.2).
type ServiceInfo struct {
	Name, Identifier, Description string
	Scheme                        string // "" means Scheme
	BaseURI                       string // beginning of references; "" if not set
	SupportURI                    string
	DefaultCatalog                string    // queue for resource description messages without a catalog; "": the first
	TombstoneAge                  int64     // hours for which culled jobs are remembered, to 876,000; 0: 90 days
	Created                       time.Time // zero means now
	Modified                      time.Time // of cutie-info.txt; ignored on writing
}

// Text returns a new property file.
func (info ServiceInfo) Text() []byte {
	var r anvl.Record
	add := func(name, value string) {
		if value != "" {
			r.Add(name, value)
		}
	}
	add("name", info.Name)
	add("identifier", info.Identifier)
	add("description", info.Description)
	add("serviceScheme", info.Scheme)
	add("baseURI", info.BaseURI)
	add("supportURI", info.SupportURI)
	add("defaultCatalog", info.DefaultCatalog)
	add("tombstoneAge", info.tombstoneAge())
	add("created", job.FormatTime(info.Created))
	return anvl.AppendRecord(nil, r)
}

// ParseService reads cutie-info.txt (Cutie 0.3, 6.2). It does not check URIs and
// lengths, so that a home with bad ones can be opened.
func ParseService(data []byte) (ServiceInfo, error) {
	r, err := anvl.ParseRecord(data)
	if err != nil {
		return ServiceInfo{}, err
	}
	if len(r) == 0 { // an emptied file must not pass for one with all defaults
		return ServiceInfo{}, errors.New("no property")
	}
	info := ServiceInfo{Name: r.Value("name"), Identifier: r.Value("identifier"), Description: r.Value("description"),
		Scheme: r.Value("serviceScheme"), BaseURI: r.Value("baseURI"), SupportURI: r.Value("supportURI"), DefaultCatalog: r.Value("defaultCatalog")}
	if info.Scheme == "" {
		info.Scheme = Scheme
	}
	if v := r.Value("tombstoneAge"); v != "" {
		if info.TombstoneAge, err = strconv.ParseInt(v, 10, 64); err != nil || info.TombstoneAge < 1 || info.TombstoneAge > maxTombstoneAge {
			return info, fmt.Errorf("tombstoneAge: %.40q is no number of hours from 1 to %d", v, maxTombstoneAge)
		}
	}
	if v := r.Value("created"); v != "" {
		if info.Created, err = job.ParseTime(v); err != nil {
			return info, fmt.Errorf("created: %w", err)
		}
	}
	return info, nil
}

// Differences names the elements of two property files that differ.
func Differences(was, now []byte) string {
	var names []string
	old, _ := anvl.ParseRecord(was)
	current, _ := anvl.ParseRecord(now)
	for _, e := range append(slices.Clone(old), current...) {
		if old.Value(e.Name) != current.Value(e.Name) && !slices.Contains(names, e.Name) {
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 {
		return "no property differs"
	}
	return strings.Join(names, ", ")
}

// Take takes the properties that may change while the home is open.
func (info *ServiceInfo) Take(n *ServiceInfo) {
	info.Name, info.Description, info.SupportURI, info.DefaultCatalog = n.Name, n.Description, n.SupportURI, n.DefaultCatalog
	info.TombstoneAge = n.TombstoneAge
}

// Changeable are the properties that may be set later.
func (info *ServiceInfo) Changeable() anvl.Record {
	return anvl.Record{{Name: "name", Value: info.Name}, {Name: "description", Value: info.Description},
		{Name: "baseURI", Value: info.BaseURI}, {Name: "supportURI", Value: info.SupportURI},
		{Name: "defaultCatalog", Value: info.DefaultCatalog}, {Name: "tombstoneAge", Value: info.tombstoneAge()}}
}

func (info *ServiceInfo) tombstoneAge() string {
	if info.TombstoneAge == 0 {
		return ""
	}
	return strconv.FormatInt(info.TombstoneAge, 10)
}

// Check refuses values too large or out of range, and cleans texts.
func (info *ServiceInfo) Check() error {
	if info.TombstoneAge < 0 || info.TombstoneAge > maxTombstoneAge {
		return fmt.Errorf("%w: tombstoneAge is 0 to %d hours", job.ErrBadName, maxTombstoneAge)
	}
	if err := checkURI("baseURI", info.BaseURI); err != nil {
		return err
	}
	return cleanTexts("service", &info.Name, &info.Description, &info.SupportURI, &info.DefaultCatalog)
}

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
		number("a whole number")
		*v = Count(value)
	case *int64:
		*v = number("a whole number")
	case *int:
		*v = int(max(number("a whole number"), 0))
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

// PublicURL returns scheme and host of a URL.
func PublicURL(full string) string {
	u, err := url.Parse(full)
	if err != nil || full == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

package home

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
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

// maxLife is the longest life of a job of UWS, in hours: 114 years.
const maxLife = 1_000_000

// UWSProperties are the properties of a queue for clients of UWS.
var UWSProperties = [...]UWSProperty{
	{Name: "uwsVersion", Words: [2]string{"1.1", "1.0"}, Help: "version of UWS, 1.0 for clients of no other"},
	{Name: "uwsJdl", Words: [2]string{"form", "payload"}, Help: "what a job has: parameters, or one opaque parameter"},
	{Name: "uwsExecutionDuration", Most: 1<<31 - 1, Help: "seconds that a job may run; 0: any time"},
	{Name: "uwsMaxExecutionDuration", Most: 1<<31 - 1, Help: "seconds that a client may ask for; 0: any time"},
	{Name: "uwsDestruction", Most: maxLife, Help: "hours until a job is destroyed; 0: never; by default the culling age, or 720"},
	{Name: "uwsMaxDestruction", Most: maxLife, Help: "hours until the destruction that a client may ask for; 0: see limits"},
	{Name: "uwsArchive", Words: [2]string{"false", "true"}, Help: "whether a job is kept as ARCHIVED at its destruction, with its parameters"},
	{Name: "uwsQuote", Most: 1<<31 - 1, Help: "seconds a job is expected to take, the quote of jobs; by default their execution duration"},
}

// A UWSProperty is one of two words, the first by default, or a number up to Most.
type UWSProperty struct {
	Name  string
	Words [2]string
	Most  int64 // 0: a word
	Help  string
}

// UWS are the values of UWSProperties as they were given; "" is the default.
type UWS [len(UWSProperties)]string

// Set gives a property a value, "" for the default. ok is false if none has the name.
func (u *UWS) Set(name, value string) (ok bool, err error) {
	for i, p := range UWSProperties {
		if p.Name != name {
			continue
		}
		if err := p.check(value); err != nil {
			return true, err
		}
		u[i] = value
		return true, nil
	}
	return false, nil
}

func (p *UWSProperty) check(value string) error {
	switch {
	case value == "":
	case p.Most == 0 && value != p.Words[0] && value != p.Words[1]:
		return fmt.Errorf("%s is %.40q, neither %s nor %s", p.Name, value, p.Words[0], p.Words[1])
	case p.Most > 0:
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < 0 || n > p.Most {
			return fmt.Errorf("%s is %.40q, not a number from 0 to %d", p.Name, value, p.Most)
		}
	}
	return nil
}

// Is reports whether a property has its second word.
func (u *UWS) Is(name string) bool {
	for i, p := range UWSProperties {
		if p.Name == name {
			return u[i] == p.Words[1] && u[i] != ""
		}
	}
	return false
}

// Number returns a property, or absent if it is not set.
func (u *UWS) Number(name string, absent int64) int64 {
	for i, p := range UWSProperties {
		if p.Name != name {
			continue
		}
		if n, err := strconv.ParseInt(u[i], 10, 64); err == nil {
			return n
		}
	}
	return absent
}

func (u *UWS) check() error {
	for i := range UWSProperties {
		if err := UWSProperties[i].check(u[i]); err != nil {
			return err
		}
	}
	if u.Is("uwsVersion") && u.Is("uwsArchive") {
		return errors.New("uwsArchive is true, and version 1.0 has no phase for it")
	}
	return nil
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

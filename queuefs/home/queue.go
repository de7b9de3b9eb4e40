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

package queuefs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/job"
	"cutie/queuefs/namaste"
)

// Names in a home (Cutie 0.3, 6). Names with cutie at the beginning are
// reserved for the program.
const (
	tagName     = "cutie"
	specVersion = "0.3"
	infoName    = "cutie-info.txt"
	lockName    = "cutie-lock"
	tempName    = "cutie-tmp"
	reserveName = "cutie-reserve" // space for a full disk
	queuesName  = "queues.txt"
	queuesDir   = "queues"
	queuesOld   = "queue" // as one heading of the specification has it
	logDir      = "log"
	journalDir  = "journal"
	indexDir    = "index"
	queueInfo   = "queue-info.txt"

	publishedDir = "resourcesync" // of published documents, with a directory for each queue
)

// Version is the version of this implementation, the third part of a service
// scheme.
const Version = "0.1"

// Scheme is the service scheme: specification, its version, ours.
const Scheme = "Cutie/" + specVersion + "/" + Version

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

// QueueInfo are the settings of a queue (Cutie 0.3, 3.2 and 6.4).
type QueueInfo struct {
	ID                          string // cleaned; made from Identifier if empty
	Identifier                  string // as given; ID if empty
	Name, Description           string
	CullingSize                 int64 // processed jobs to keep; -1 unset: never cull
	CullingAge                  int64 // hours; -1 unset
	VerifyOnRead, VerifyOnWrite bool
	Paused                      time.Time     // since then no job is handed out; zero: it runs
	Closed                      bool          // refuses submissions
	Acknowledge                 Acknowledge   // meaning of a consumer's silence
	Lease                       time.Duration // default where a lease is needed; 0: 15 min
	MaxAttempts                 int           // hand-outs after which an expired lease fails the job; 0: no limit
	Callback                    string        // URL to be told of changes; "" for none
	Digests                     digest.Set    // computed of every payload, beside SHA-256
	Created                     time.Time
}

// Init makes an empty home in the directory dir, and makes dir, for its owner
// alone, if need be. The error is [fs.ErrExist] if it is a home already.
func Init(dir string, info ServiceInfo) (err error) {
	// Jobs may be private. For other users, make the directory first, or change
	// its mode.
	if err := os.MkdirAll(filepath.Dir(filepath.Clean(dir)), 0o777); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := durable.OpenDir(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	tag := namaste.Tag{Number: namaste.Type, Value: "Cutie/" + specVersion}
	if _, err := d.Stat(tag.FileName()); err == nil {
		return fmt.Errorf("%s is a Cutie home: %w", dir, fs.ErrExist)
	}
	if info.Created.IsZero() {
		info.Created = time.Now()
	}
	if info.Scheme == "" {
		info.Scheme = Scheme
	}
	for _, sub := range []string{logDir, queuesDir} {
		s, err := d.MakeSub(sub)
		if err != nil {
			return err
		}
		s.Close()
	}
	if err := d.Replace(infoName, info.file()); err != nil {
		return err
	}
	// With the tag the directory becomes a home.
	return d.Replace(tag.FileName(), []byte(tag.Content()))
}

// Unmade reports whether a directory is not there, is empty, or has only the
// remains of a broken-off Init.
func Unmade(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	made := map[string]bool{} // by Init, in this order
	for _, e := range entries {
		switch name := e.Name(); {
		case name == logDir, name == queuesDir:
			within, err := os.ReadDir(filepath.Join(dir, name))
			if err != nil || len(within) > 0 {
				return false, err
			}
			made[name] = true
		case name == infoName, strings.HasPrefix(name, durable.TempPrefix):
			made[infoName] = true
		default:
			return false, nil
		}
	}
	return made[logDir] || !made[queuesDir] && !made[infoName], nil
}

func (info ServiceInfo) file() []byte {
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
	add("created", FormatTime(info.Created))
	return anvl.AppendRecord(nil, r)
}

func parseServiceInfo(data []byte) (ServiceInfo, error) {
	r, err := anvl.ParseRecord(data)
	if err != nil {
		return ServiceInfo{}, err
	}
	info := ServiceInfo{Name: r.Value("name"), Identifier: r.Value("identifier"), Description: r.Value("description"),
		Scheme: r.Value("serviceScheme"), BaseURI: r.Value("baseURI"), SupportURI: r.Value("supportURI"), DefaultCatalog: r.Value("defaultCatalog")}
	if info.Scheme == "" {
		info.Scheme = Scheme
	}
	if v := r.Value("tombstoneAge"); v != "" {
		if info.TombstoneAge, err = strconv.ParseInt(v, 10, 64); err != nil || info.TombstoneAge < 1 || info.TombstoneAge > 876_000 {
			return info, fmt.Errorf("tombstoneAge: %.40q is no number of hours from 1 to 876000", v)
		}
	}
	if v := r.Value("created"); v != "" {
		if info.Created, err = job.ParseTime(v); err != nil {
			return info, fmt.Errorf("created: %w", err)
		}
	}
	return info, nil
}

// readQueues returns the directories named in queues.txt, in their order. A
// name that cleaning could not have made is an error.
func readQueues(data []byte) (ids []string, err error) {
	ids = []string{} // an empty file says that there are none
	sc := bufio.NewScanner(bytes.NewReader(data))
	seen := map[string]bool{}
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, err := CleanQueueID(line)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", queuesName, n, err)
		}
		if !seen[id] {
			ids = append(ids, id)
			seen[id] = true
		}
	}
	return ids, sc.Err()
}

// checkTag checks for a home of a version known to this program. An older
// version is reported as a problem.
func checkTag(d *durable.Dir, report func(Problem)) error {
	var names []string
	if err := d.Names(func(n string) { names = append(names, n) }); err != nil {
		return err
	}
	for _, name := range namaste.Find(names, namaste.Type) {
		data, err := d.ReadFile(name, nil, 1<<10)
		if err != nil {
			return err
		}
		tag, err := namaste.Parse(name, string(data))
		if err != nil {
			continue
		}
		v, err := namaste.ParseVersion(tag.Value)
		if err != nil || !strings.EqualFold(v.Name, tagName) {
			continue
		}
		if v.Major != 0 || v.Minor > 3 || v.Minor < 2 {
			return fmt.Errorf("%s: Cutie version %d.%d is not one this program knows", d.Path(), v.Major, v.Minor)
		}
		if v.Minor == 2 {
			report(Problem{Path: name, Text: "home of version 0.2, opened as 0.3"})
		}
		return nil
	}
	return fmt.Errorf("%s: %w: no tag 0=cutie_%s", d.Path(), ErrNoHome, specVersion)
}

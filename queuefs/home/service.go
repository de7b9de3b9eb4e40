package home

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/job"
)

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

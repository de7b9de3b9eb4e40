package descriptions

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/output"
	"cutie/publisher/rdm"
	"cutie/queuefs/anvl"
)

// A remembered file keeps the dates to ask from, for one catalog of one server.
type remembered struct {
	name   string
	record anvl.Record
}

// Names of the elements in the file.
const (
	rememberedURL     = "url"
	rememberedCatalog = "catalog"
	rememberedGet     = "since"
	rememberedDeleted = "deletedSince"
)

const maxRemembered = 64 << 10 // octets

func readRemembered(name, url, catalog string) (*remembered, error) {
	m := &remembered{name: name, record: anvl.Record{{Name: rememberedURL, Value: url}, {Name: rememberedCatalog, Value: catalog}}}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil && info.Size() > maxRemembered {
		err = fmt.Errorf("%s: more than %d octets", name, maxRemembered)
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	record, err := anvl.ParseRecord(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if record.Value(rememberedURL) != url || record.Value(rememberedCatalog) != catalog {
		return nil, fault.Hint(fmt.Errorf("%s is about catalog %q of %s", name, record.Value(rememberedCatalog), record.Value(rememberedURL)),
			"use another file for each catalog")
	}
	for _, element := range []string{rememberedGet, rememberedDeleted} {
		if v, ok := record.Lookup(element); ok {
			if _, err := http.ParseTime(v); err != nil {
				return nil, fmt.Errorf("%s: %s: %q is no date", name, element, v)
			}
		}
	}
	m.record = record
	return m, nil
}

func element(typ rdm.Type) string {
	if typ == rdm.RDRequestDeleted {
		return rememberedDeleted
	}
	return rememberedGet
}

// scope is the scope of the next query.
func (m *remembered) scope(typ rdm.Type) string {
	if t, err := http.ParseTime(m.record.Value(element(typ))); err == nil {
		return rdm.Since(t)
	}
	return "all"
}

// advance keeps the date of an answer. Without a date from the server it is the
// newest date of an object.
func (m *remembered) advance(typ rdm.Type, until, newest time.Time) error {
	if until.IsZero() {
		until = newest
	}
	if until.IsZero() {
		return nil
	}
	m.record.Set(element(typ), until.UTC().Format(http.TimeFormat))
	return output.WriteFile(m.name, func(w io.Writer) error {
		_, err := w.Write(anvl.AppendRecord(nil, m.record))
		return err
	})
}

package names_test

import (
	"strings"
	"testing"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/job"
)

func TestNamesAreReadAsTheyArePrinted(t *testing.T) {
	seen := map[string]bool{}
	for k := names.CapabilityList; k <= names.SitemapPage; k++ {
		var ok bool
		for _, d := range []names.Doc{k.Of(), k.Of(7), k.Of(7, 1234567), k.Of(7).As("0123abcd"), k.Of(7, 1234567).As("00000001ff")} {
			name := d.String()
			got, parsed := names.ParseDoc(name)
			if parsed && got != d {
				if got.String() != name {
					t.Errorf("%q is read as %+v, want %+v", name, got, d)
				}
				continue // the kind has fewer numbers
			}
			if ok = ok || parsed; parsed && seen[name] {
				t.Errorf("%q names two documents", name)
			}
			seen[name] = seen[name] || parsed
		}
		if !ok {
			t.Errorf("kind %d: no name is read back", k)
		}
	}
	for _, bad := range []string{"", "x", "capabilitylist", "changelist-7.xml", "changelist-000000000000.xml", "changelist-00000000000x.xml", "changelist-000000000007.xml ",
		"resourcedump-000001-7.zip", "resourcelist-000000.xml", "../capabilitylist.xml", "changelist-+00000000007.xml",
		"changelist-000000000007-0123abc.xml", "changelist-000000000007-0123ABCD.xml", "changelist-0123abcd.xml", "changelist-000000000007-.xml", "resourcelist-000001-0123abcd.xml"} {
		if d, ok := names.ParseDoc(bad); ok {
			t.Errorf("%q is read as %v", bad, d)
		}
		if n, ok := names.ParsePart(bad); ok {
			t.Errorf("%q is part %d", bad, n)
		}
		if seq, ok := names.ListFile(bad); ok {
			t.Errorf("%q is a file of list %d", bad, seq)
		}
	}
	if n, ok := names.ParsePart(names.Part(12)); n != 12 || !ok {
		t.Errorf("got part %d, %v", n, ok)
	}
	for _, name := range []string{names.EntriesFile(12), names.GzipFile(12)} {
		if seq, ok := names.ListFile(name); seq != 12 || !ok {
			t.Errorf("%q: got list %d, %v", name, seq, ok)
		}
	}
	for s := range names.Set(names.Sets) {
		if got, ok := names.ParseSet(s.String()); got != s || !ok {
			t.Errorf("set %v is read as %v, %v", s, got, ok)
		}
	}
}

func TestReferencesOfFilesAreReadAsTheyArePrinted(t *testing.T) {
	refs := names.Site("http://source.test/cutie").Queue("a^20b")
	if !strings.HasPrefix(refs.Dir, "http://source.test/cutie/queues/a%5E20b/") {
		t.Errorf("got %q", refs.Dir)
	}
	id := job.ID(42)
	want := map[string]names.File{refs.Info: {}, refs.Payloads + id.String(): {Payload: true, Job: id}}
	for st := job.Pending; st <= job.Deleted; st++ {
		want[refs.Jobs[st]+id.String()] = names.File{Job: id, Status: st}
	}
	for loc, want := range want {
		if got, ok := refs.File(loc); got != want || !ok {
			t.Errorf("%s: got %+v, %v, want %+v", loc, got, ok, want)
		}
	}
	for _, bad := range []string{"", refs.Dir, refs.Payloads, refs.Payloads + "42", refs.Dir + "corrupt/" + id.String(), "http://other.test/" + id.String(), refs.Info + "x"} {
		if f, ok := refs.File(bad); ok {
			t.Errorf("%q is read as %+v", bad, f)
		}
	}
}

func TestPaces(t *testing.T) {
	for text, want := range map[string]names.Pace{
		"0": {}, "7d": {Period: 168 * time.Hour}, "36h": {Period: 36 * time.Hour}, "1000": {Rate: 1000},
		"10MB": {Rate: 10e6}, "10MB/s": {Rate: 10e6}, "500kB": {Rate: 500e3},
	} {
		got, err := names.ParsePace(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := names.ParsePace(got.String()); err != nil || again != want {
			t.Errorf("%s: printed as %s, which is %+v, %v", text, got, again, err)
		}
	}
	for _, bad := range []string{"", "-1", "-1h", "x", "10XB", "0d", "1e9"} {
		if got, err := names.ParsePace(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

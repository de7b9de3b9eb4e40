package names_test

import (
	"bytes"
	"testing"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// list returns a Change List of n events with two entries each.
func list(n int, d sitemap.Dialect) (text []byte, ends []int) {
	r := names.Renderer{Refs: names.Site("http://source.test").Queue("jobs"), Dialect: d}
	for seq := 1; seq <= n; seq++ {
		ev := job.Event{Seq: job.Seq(seq), Time: when(seq), Kind: job.Submit, Job: job.ID(seq), To: job.Pending}
		text, _ = r.Changed(text, names.Replica, &ev)
		ends = append(ends, len(text))
	}
	return text, ends
}

func when(seq int) time.Time { return time.Date(2026, 3, 1, 12, 0, seq, 0, time.UTC) }

func TestExcerptsAreOfWholeEvents(t *testing.T) {
	for _, d := range []sitemap.Dialect{sitemap.V11, sitemap.V10, sitemap.V09} {
		text, ends := list(900, d) // longer than a window of the search
		r, length := bytes.NewReader(text), int64(len(text))
		ends = append([]int{0}, ends...)
		for after := 0; after <= 900; after += 75 {
			forwards := after%2 == 1
			got, last, err := names.After(r, length, forwards, job.Seq(after), 1<<30)
			if err != nil || !bytes.Equal(got, text[ends[after]:]) || last != (names.Position{}) {
				t.Errorf("%v: all after %d: got %d bytes up to %v, %v", d, after, len(got), last, err)
			}
			for _, max := range []int{5_000, 5_001, 30_000} {
				got, last, err := names.After(r, length, forwards, job.Seq(after), max)
				if err != nil || len(got) > max || last.Seq == 0 && after+max/900 < 850 {
					t.Errorf("%v: %d bytes after %d: got %d up to %v, %v", d, max, after, len(got), last, err)
				}
				end := 900
				if last.Seq != 0 {
					if end = int(last.Seq); !last.At.Equal(when(end)) {
						t.Errorf("%v: event %d was at %v, got %v", d, end, when(end), last.At)
					}
				}
				if !bytes.Equal(got, text[ends[after]:ends[end]]) {
					t.Errorf("%v: %d bytes after %d are not the events up to %d", d, max, after, end)
				}
			}
		}
		for _, max := range []int{5_000, 5_001, 1 << 30} {
			got, before, err := names.Last(r, length, max)
			if err != nil || len(got) > max || !bytes.Equal(got, text[ends[before.Seq]:]) || (before.Seq == 0) != (max == 1<<30) {
				t.Errorf("%v: last %d bytes: got %d after %v, %v", d, max, len(got), before, err)
			}
		}
	}
	for _, bad := range []string{"no entry\n", "<url><loc>x</loc></url>\n"} {
		if _, _, err := names.After(bytes.NewReader([]byte(bad)), int64(len(bad)), false, 0, 100); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestPositionsAreReadAsTheyArePrinted(t *testing.T) {
	p := names.Position{Seq: 42, At: when(7)}
	if got, err := names.ParsePosition(p.String()); got != p || err != nil {
		t.Errorf("got %v, %v, want %v", got, err, p)
	}
	for _, bad := range []string{"", "-", "42", "42-", "-7", "042-7", "42-7 ", "42-x", "42-7-1"} {
		if got, err := names.ParsePosition(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

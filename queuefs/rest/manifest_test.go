package rest_test

import (
	"fmt"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// A file of every kind that a line of a manifest may describe, in the order of
// the lines; whichever way the manifest comes.
func TestManifestIsSubmitted(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 20<<10) // beyond what the journal takes
	src := newSource(t, map[string]string{"/a": "hello\n", "/b%20c.bin": large, "/d": "", "/e": "hello\n"})
	blank := fmt.Sprintf("#%%checkm_0.7\n%s/a md5 %s - - ../x/a%%20b.txt\n%s/b%%20c.bin?q=1 - - %d\n%s/d - - d.name\n%[1]s/a\n#%%eof\n",
		src.url, md5OfHello, src.url, len(large), src.url)
	bars := fmt.Sprintf("#%%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName | mrt:mimeType | mrt:creator | mrt:title\r\n"+
		"%s/a | MD5 | %s | 6 | 2010-04-20 | ../x/a b.txt | image/jpeg | Seneca; T. | T\r\n%s/b%%20c.bin | SHA256 | %s\r\n%s/d | CRC-32 | 0 | 0 | | d.name\r\n%[1]s/a",
		src.url, strings.ToUpper(md5OfHello), src.url, digest.Sum(digest.SHA256, []byte(large)).Hex, src.url)
	for _, tt := range []struct {
		name string
		post func(s *site) answer
	}{
		{"bare", func(s *site) answer {
			return s.do("POST", "/content/jobs?t=anvl&type=Batch-Manifest", blank, "User-Agent", "someone/1")
		}},
		{"bare with a digest", func(s *site) answer {
			return s.do("POST", "/content/jobs?t=anvl&type=batch&digest-type=md5&digest-value="+digest.Sum(digest.MD5, []byte(bars)).Hex, bars, "User-Agent", "someone/1")
		}},
		{"form, type first", func(s *site) answer {
			return s.postForm(newForm().field("type", "batch-manifest").file("m", bars).end(), "Accept", "text/x-anvl", "User-Agent", "someone/1")
		}},
		{"form, type last", func(s *site) answer {
			return s.postForm(newForm().file("m", blank, "Content-Type: application/octet-stream").field("type", "batch").end(), "Accept", "text/x-anvl", "User-Agent", "someone/1")
		}},
		{"form, by media type", func(s *site) answer {
			return s.postForm(newForm().file("m", bars, "Content-Type: text/x-checkm; charset=utf-8").end(), "Accept", "text/x-anvl", "User-Agent", "someone/1")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, rest.Options{Fetch: src.client(t)})
			a := tt.post(s).want(t, 201)
			a.header(t, "Location", s.url+"/state/jobs")
			d, err := state.ANVL.Decode(state.QueueClass, []byte(a.body))
			if err != nil {
				t.Fatal(err)
			}
			if q, err := d.Queue(); err != nil || fmt.Sprint(q.Submitted) != "[j000000000001 j000000000002 j000000000003 j000000000004]" || q.Pending != 4 {
				t.Errorf("answer: got %+v, %v", q, err)
			}
			jobs, err := s.q.List(queuefs.ListOptions{})
			if err != nil || len(jobs) != 4 {
				t.Fatalf("got %d jobs, %v", len(jobs), err)
			}
			names, bodies := []string{"a b.txt", "b c.bin", "d.name", "a"}, []string{"hello\n", large, "", "hello\n"}
			for i, j := range jobs {
				sums := j.Digests
				if len(sums) == 0 || sums[0] != digest.Sum(digest.SHA256, []byte(bodies[i])) {
					t.Errorf("job %d: digests %v", i, sums)
				}
				want := queuefs.Job{ID: queuefs.JobID(i + 1), Queue: "jobs", Status: queuefs.Pending, Seq: queuefs.Seq(i + 1),
					Filename: names[i], MediaType: "text/x-source", Submitter: "someone/1", Batch: "b000000000001-4",
					Size: int64(len(bodies[i])), Digests: sums, Submitted: j.Submitted}
				if i == 0 && strings.Contains(a.Request.URL.RawQuery+tt.name, "digest") || i == 0 && strings.Contains(tt.name, "first") || i == 0 && strings.Contains(tt.name, "media") {
					want.MediaType, want.Sidecar = "image/jpeg", `mrt:creator=Seneca\; T.; mrt:title=T`
				}
				if fmt.Sprint(j) != fmt.Sprint(want) {
					t.Errorf("job %d: got %+v, want %+v", i, j, want)
				}
				if got := s.payload(j.ID); got != bodies[i] {
					t.Errorf("payload %d: got %d octets, want %d", i, len(got), len(bodies[i]))
				}
			}
			s.wantNoTemps()
		})
	}
}

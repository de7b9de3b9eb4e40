package rest_test

import (
	"fmt"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/batch"
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

// Of a manifest that is wrong nothing is fetched, and the answer tells of every
// line.
func TestManifestsThatAreRefused(t *testing.T) {
	src := newSource(t, nil)
	s := newSite(t, rest.Options{Fetch: src.client(t), MaxBody: 1 << 20, MaxSidecar: 10, Batch: batch.Limits{Lines: 5, Octets: 2000}})
	u := src.url
	for _, tt := range []struct {
		name, manifest string
		status         int
		want           string
	}{
		{"nothing", "", 400, "batch manifest names no files"},
		{"comments", "# x\n\n", 400, "batch manifest names no files"},
		{"bad lines", "ftp://a/b\n" + u + "/a md5\n" + u + "/a md5 zz\n" + u + "/a nosuch 00\n" + u + "/a - - -1 - a\n", 400,
			`line 1: "ftp://a/b": refused: scheme is not http or https; ` +
				`line 2: md5 without value; ` +
				`line 3: MD5 value "zz" is not 32 hexadecimal digits; ` +
				`line 4: unknown digest type "nosuch"; ` +
				`line 5: length "-1" is not a number of octets`},
		{"more", "@m.checkm\n" + u + "/a - 00\n" + u + "/d dir\nhttp://[/\nhttp://u:p@a/\n", 400,
			`line 1: "m.checkm" is not a whole URL; relative ones are for manifests that are included by theirs; ` +
				`line 2: digest without type; ` +
				`line 3: a directory is neither a job nor a manifest; ` +
				`line 4: "http://[/" is not a URL; ` +
				`line 5: "http://u:p@a/": refused: URL has a user or a password`},
		{"columns", "#%fields|fileUrl|mimetype|x|filesize\n" + u + "/a|x\n" + u + "/b||123456789\n" + u + "/c|||1048577\n", 400,
			`line 2: "x" is not a media type; line 3: columns have more than 10 octets; line 4: length 1048577 is more than 1048576 octets`},
		{"cut", "#%checkm_0.7\n" + u + "/a\n", 400, "line 2: truncated manifest: #%eof is missing"},
		{"behind the end", u + "/a\n#%eof\n" + u + "/b\n", 400, "line 3: text behind #%eof"},
		{"many lines", strings.Repeat(u+"/a\n", 6), 413, "line 6: manifest too large: more than 5 entries"},
		{"long", "# " + strings.Repeat("x", 2000), 413, "batch manifest has more than 2000 octets"},
	} {
		if got := s.do("POST", "/content/jobs?type=batch", tt.manifest).want(t, tt.status).exception(t); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	good := u + "/a\n"
	for name, tt := range map[string]struct {
		a    answer
		want string
	}{
		"sidecar in the query":  {s.do("POST", "/content/jobs?type=batch&sidecar=x", good), "a sidecar belongs to a single job"},
		"sidecar in a header":   {s.do("POST", "/content/jobs?type=batch", good, "Cutie-Sidecar", "x"), "a sidecar belongs to a single job"},
		"sidecar in a part":     {s.postForm(newForm().file("m", good, "Content-Type: text/checkm").field("sidecar", "x").end()), "a sidecar belongs to a single job"},
		"sidecar of a part":     {s.postForm(newForm().file("m", good, "Content-Type: text/checkm", "Cutie-Sidecar: x").end()), "a sidecar belongs to a single job"},
		"wrong digest":          {s.do("POST", "/content/jobs?type=batch&digest-type=md5&digest-value="+md5OfHello, good), "digest verification failed"},
		"two manifests":         {s.postForm(newForm().file("m", good).file("n", good).field("type", "batch").end()), "a batch is one manifest, this form has 2 files"},
		"a manifest and a file": {s.postForm(newForm().file("m", good, "Content-Type: text/checkm").file("n", "x").end()), "with type=job a manifest is a job"},
	} {
		if got := tt.a.want(t, 400).exception(t); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	// Cutie 5.5 prints 415 for this one.
	if got, want := s.do("POST", "/content/jobs?type=manifest", good).want(t, 415).exception(t), `type "manifest" is neither job nor batch-manifest`; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// An answer has an end.
	s = newSite(t, rest.Options{Fetch: src.client(t)})
	got := s.do("POST", "/content/jobs?type=batch", strings.Repeat("ftp://a/\n", 1000)).want(t, 400).exception(t)
	if n := strings.Count(got, "; line "); n != 99 || !strings.HasSuffix(got, "; and perhaps more") {
		t.Errorf("got %d complaints, %q at the end", n+1, got[len(got)-40:])
	}
	s.wantCounts(0, 0, 0)
	s.wantNoTemps()
	if n := src.asked.Load(); n != 0 {
		t.Errorf("%d files were fetched", n)
	}
}

package destination_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"cutie/publisher/destination"
	"cutie/publisher/destination/source"
)

// site is a Source with one resource: a Sitemap beside it is enough.
func site() *httptest.Server {
	files := map[string]string{"/hello.txt": "hello\n"}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sitemap.xml" {
			fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`+
				`<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/><url><loc>http://%s/hello.txt</loc><lastmod>2026-01-01T00:00:00Z</lastmod>`+
				`<rs:md length="6" hash="md5:b1946ac92492d2347c6235b4d2611184"/></url></urlset>`, r.Host)
			return
		}
		text, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, text)
	}))
}

func Example() {
	site := site()
	defer site.Close()
	dir, err := os.MkdirTemp("", "copy-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ctx := context.Background()
	c, err := destination.Open(ctx, destination.Options{URL: site.URL, Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	r, err := c.Sync(ctx)
	if err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "hello.txt"))
	fmt.Printf("fetched %d, in sync: %v\n%s", r.Fetched, r.InSync(), text)
	// Output:
	// fetched 1, in sync: true
	// hello
}

func Example_inspect() {
	site := site()
	defer site.Close()
	client := source.NewClient(source.Options{Origin: site.URL})
	r, err := destination.Inspect(context.Background(), client, site.URL, destination.InspectOptions{Sample: -1})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d resources read, clean: %v\n", r.Asked, r.Clean())
	// Output:
	// 1 resources read, clean: true
}

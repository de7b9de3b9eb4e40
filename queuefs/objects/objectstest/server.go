package objectstest

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"cutie/queuefs/objects"
)

// Handler serves a store as one bucket, whatever its name, by the S3 API: as much of it as
// the client of package s3 uses, without multipart uploads. Signatures are not checked. A
// request with a fault ends without an answer.
func Handler(s objects.Store) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if err := serve(w, r, s, key); err != nil {
			refuse(w, err)
		}
	})
}

// maxBody is the most bytes of an object.
const maxBody = 64 << 20

func serve(w http.ResponseWriter, r *http.Request, s objects.Store, key string) error {
	ctx, q := r.Context(), r.URL.Query()
	switch {
	case r.Method == http.MethodPut:
		data, err := body(r)
		if err != nil {
			return err
		}
		if r.Header.Get("If-None-Match") == "*" {
			err = s.Create(ctx, key, data)
		} else {
			err = s.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
		}
		if err == nil {
			w.Header().Set("ETag", `"0"`)
		}
		return err
	case r.Method == http.MethodGet && q.Get("list-type") == "2":
		most, err := strconv.Atoi(q.Get("max-keys"))
		if err != nil {
			most = 1000
		}
		names, err := s.List(ctx, q.Get("prefix"), q.Get("start-after"), most)
		if err != nil {
			return err
		}
		return list(w, names)
	case r.Method == http.MethodGet:
		from, size, err := parseRange(r.Header.Get("Range"))
		if err != nil {
			return err
		}
		get := func() (io.ReadCloser, error) { return s.Get(ctx, key, size) }
		if from > 0 {
			get = func() (io.ReadCloser, error) { return s.Part(ctx, key, from, size) }
		}
		data, err := get()
		if err != nil {
			return err
		}
		defer data.Close()
		w.Header().Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
		w.Header().Set("ETag", `"0"`)
		if size > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		_, err = io.Copy(w, data)
		return err
	case r.Method == http.MethodDelete:
		if err := s.Delete(ctx, key); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return errors.New("no such request")
}

// parseRange returns the offset and the size of a range; zeros mean all.
func parseRange(field string) (from, size int64, err error) {
	if field == "" {
		return 0, 0, nil
	}
	var last int64
	if _, err := fmt.Sscanf(field, "bytes=%d-%d", &from, &last); err != nil {
		return 0, 0, err
	}
	return from, last - from + 1, nil
}

// body returns the body of a request, without the framing of signed chunks.
func body(r *http.Request) ([]byte, error) {
	if r.Header.Get("X-Amz-Decoded-Content-Length") == "" {
		return io.ReadAll(io.LimitReader(r.Body, maxBody))
	}
	in := bufio.NewReader(r.Body)
	var data []byte
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(size, 16, 32)
		if err != nil || n == 0 {
			return data, err
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, err
		}
		data = append(data, chunk[:n]...)
	}
}

func list(w http.ResponseWriter, names []string) error {
	type content struct{ Key string }
	var result struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		KeyCount    int
		IsTruncated bool
		Contents    []content
	}
	for _, name := range names {
		result.Contents = append(result.Contents, content{name})
	}
	result.KeyCount = len(names)
	w.Header().Set("Content-Type", "application/xml")
	return xml.NewEncoder(w).Encode(&result)
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	status, code := http.StatusBadRequest, "InvalidRequest"
	switch {
	case errors.Is(err, objects.ErrExist):
		status, code = http.StatusPreconditionFailed, "PreconditionFailed"
	case errors.Is(err, objects.ErrNotExist):
		status, code = http.StatusNotFound, "NoSuchKey"
	case errors.Is(err, ErrFault):
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
}

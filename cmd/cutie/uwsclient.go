package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/target"
	"cutie/queuefs"
)

func (s *uwsClient) job(ctx context.Context, query string) (j uwsJob, err error) {
	text, err := s.read(ctx, s.url+query)
	if err != nil {
		return j, err
	}
	if err = unmarshalUWS(text, &j); err == nil && j.Phase == "" {
		err = errors.New("the job has no phase")
	}
	return j, err
}

func unmarshalUWS(text []byte, v any) error {
	if err := xml.Unmarshal(text, v); err != nil {
		return fmt.Errorf("not a document of UWS: %w", err)
	}
	return nil
}

func (s *uwsClient) read(ctx context.Context, where string) ([]byte, error) {
	resp, err := s.send(ctx, s.web, http.MethodGet, where, nil, "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxUWS+1))
	if err == nil && len(text) > maxUWS {
		err = fmt.Errorf("%s: more than %d octets", where, maxUWS)
	}
	return text, err
}

const mediaForm = "application/x-www-form-urlencoded"

// post sends a form and follows redirects.
func (s *uwsClient) post(ctx context.Context, where string, form url.Values) error {
	resp, err := s.send(ctx, s.web, http.MethodPost, where, strings.NewReader(form.Encode()), mediaForm)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// send sends a request. It returns an error for answers from status 400 on.
func (s *uwsClient) send(ctx context.Context, web *http.Client, method, where string, body io.Reader, mediaType string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, where, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", target.Agent())
	r.Header.Set("Accept", "application/xml, text/xml, */*;q=0.5")
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	resp, err := web.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	why, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if why == "" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		why = strings.ToLower(http.StatusText(resp.StatusCode))
	}
	err = errors.New(why)
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		err = fmt.Errorf("%w: %s", fault.ErrRefused, why)
	case http.StatusNotFound:
		err = queuefs.ErrNoJob
	}
	return nil, fmt.Errorf("%s: %w", where, err)
}

// parts returns a body with the form and the files of --upload. The files are read
// while the body is sent; end closes them.
func (s *uwsClient) parts(form url.Values) (body io.Reader, mediaType string, end func(), err error) {
	var (
		names []string
		files []*os.File
	)
	closeFiles := func() {
		for _, f := range files {
			f.Close()
		}
	}
	for _, u := range s.uploads {
		name, path, ok := strings.Cut(u, "=")
		if !ok || name == "" || path == "" {
			closeFiles()
			return nil, "", nil, fault.Usagef("--upload %.60q is not NAME=FILE", u)
		}
		f, err := os.Open(path)
		if err != nil {
			closeFiles()
			return nil, "", nil, err
		}
		names, files = append(names, name), append(files, f)
	}
	r, w := io.Pipe()
	m := multipart.NewWriter(w)
	written := make(chan struct{})
	go func() {
		w.CloseWithError(writeParts(m, form, names, files))
		close(written)
	}()
	return r, m.FormDataContentType(), func() {
		r.Close()
		<-written
		closeFiles()
	}, nil
}

func writeParts(m *multipart.Writer, form url.Values, names []string, files []*os.File) error {
	for name, values := range form {
		for _, v := range values {
			if err := m.WriteField(name, v); err != nil {
				return err
			}
		}
	}
	for i, f := range files {
		p, err := m.CreateFormFile(names[i], filepath.Base(f.Name()))
		if err != nil {
			return err
		}
		if _, err := io.Copy(p, f); err != nil {
			return err
		}
	}
	return m.Close()
}

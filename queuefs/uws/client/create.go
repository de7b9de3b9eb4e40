package client

import (
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

const mediaForm = "application/x-www-form-urlencoded"

// A Part is a parameter with a file as its value.
type Part struct {
	Name string
	File *os.File // read from its position on
}

// Create makes a job with parameters and files, and returns its URL.
func (c *Client) Create(ctx context.Context, list string, parameters url.Values, files ...Part) (job string, err error) {
	body, mediaType := io.Reader(strings.NewReader(parameters.Encode())), mediaForm
	if len(files) > 0 {
		r, w := io.Pipe()
		m := multipart.NewWriter(w)
		written := make(chan struct{})
		go func() {
			w.CloseWithError(writeParts(m, parameters, files))
			close(written)
		}()
		defer func() { // the files are no longer read then
			r.Close()
			<-written
		}()
		body, mediaType = r, m.FormDataContentType()
	}
	web := *c.HTTP
	web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := c.send(ctx, &web, http.MethodPost, list, body, mediaType)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	at, err := resp.Location()
	if err != nil || resp.StatusCode != http.StatusSeeOther {
		return "", fmt.Errorf("%s: answered with %s and no job", list, resp.Status)
	}
	return at.String(), nil
}

func writeParts(m *multipart.Writer, parameters url.Values, files []Part) error {
	for name, values := range parameters {
		for _, v := range values {
			if err := m.WriteField(name, v); err != nil {
				return err
			}
		}
	}
	for _, f := range files {
		p, err := m.CreateFormFile(f.Name, filepath.Base(f.File.Name()))
		if err != nil {
			return err
		}
		if _, err := io.Copy(p, f.File); err != nil {
			return err
		}
	}
	return m.Close()
}

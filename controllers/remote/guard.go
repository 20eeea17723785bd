// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// answerTimeout bounds how long a request waits for its answer to begin,
	// and how long an answer that is not a stream may take.
	answerTimeout = 30 * time.Second
	// maxAnswer bounds an answer that is not a stream, in bytes: an API
	// server's lists are larger only where ours never look.
	maxAnswer = 16 << 20
)

var (
	// ErrRedirect says that a peer answered with a redirect, which no API
	// server does.
	ErrRedirect = errors.New("the peer redirects; redirects are refused, set the URL that it is really reached at")
	// ErrAnswerTooLarge says that a peer's answer has no end in sight.
	ErrAnswerTooLarge = fmt.Errorf("the peer's answer is larger than %d bytes", maxAnswer)

	errAnswerTimeout = fmt.Errorf("the peer did not answer within %v", answerTimeout)
)

// guard keeps a peer from leading requests elsewhere, from answering without
// end, and from never answering.
type guard struct{ next http.RoundTripper }

// RoundTrip sends one request.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(answerTimeout, func() { cancel(errAnswerTimeout) })
	response, err := g.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		timer.Stop()
		if cause := context.Cause(ctx); errors.Is(cause, errAnswerTimeout) {
			err = cause
		}
		cancel(err)
		return nil, err
	}
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols:
		// The body is the connection itself, and stays as it is.
		timer.Stop()
		context.AfterFunc(request.Context(), func() { cancel(context.Canceled) })
		return response, nil
	case response.StatusCode >= 300 && response.StatusCode < 400:
		timer.Stop()
		closeErr := response.Body.Close()
		cancel(ErrRedirect)
		return nil, errors.Join(fmt.Errorf("%s answers %s: %w", request.URL.Host, response.Status, ErrRedirect), closeErr)
	}
	body := &guardedBody{ReadCloser: response.Body, cancel: cancel, timer: timer}
	if bounded(request, response) {
		body.left = maxAnswer
		body.bounded = true
	} else {
		timer.Stop()
	}
	response.Body = body
	return response, nil
}

// WrappedRoundTripper is for client-go, which looks beneath wrappers.
func (g *guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// bounded tells an answer that is one object from watches, logs and other
// streams.
func bounded(request *http.Request, response *http.Response) bool {
	if request.URL.Query().Has("watch") && response.StatusCode == http.StatusOK {
		return false
	}
	if response.StatusCode >= 400 {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		return true
	}
	switch mediaType {
	case runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeYAML, runtime.ContentTypeCBOR:
		return true
	}
	return false
}

type guardedBody struct {
	io.ReadCloser
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	bounded bool
	left    int64
}

// Read reads at most what is allowed, and then one byte more to know whether
// that was all.
func (b *guardedBody) Read(p []byte) (int, error) {
	if !b.bounded {
		return b.ReadCloser.Read(p)
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrAnswerTooLarge
	}
	return n, err
}

// Close ends the request.
func (b *guardedBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(context.Canceled)
	return err
}

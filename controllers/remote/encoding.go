// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// refusedEncodings has the encodings, apart from JSON, that clients of Kubernetes decode, by the end of their media
// types: application/yaml, application/vnd.kubernetes.protobuf, application/cbor, application/cbor-seq, and media types
// with these suffixes. client-go decodes a response as its media type requires, whatever was requested.
var refusedEncodings = []string{"yaml", "protobuf", "cbor", "cbor-seq"}

// refusedEncoding reports whether a media type is one of refusedEncodings. All other media types apart from JSON, for
// example text/html of a proxy, are not decoded.
func refusedEncoding(mediaType string) bool {
	return slices.Contains(refusedEncodings, mediaType[strings.LastIndexAny(mediaType, "/.+")+1:])
}

// isJSON reports whether clients decode a media type as JSON. They do so without a valid media type.
func isJSON(mediaType string) bool {
	return mediaType == "" || mediaType == runtime.ContentTypeJSON || strings.HasSuffix(mediaType, "+json")
}

// mediaTypeOf returns the media type of a response without its parameters; empty if it is missing or invalid. It is
// valid with invalid parameters, because client-go ignores these in watches.
func mediaTypeOf(response *http.Response) string {
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return mediaType
}

// ensureMediaType sets the media type of a response that has none, because client-go decodes such a response in the
// encoding of the client's requests, which is protobuf for metadata clients. client-go reports the text of a response
// that is not successful only if the response has no media type or is text.
func ensureMediaType(response *http.Response) {
	switch {
	case response.Header.Get("Content-Type") != "":
	case response.StatusCode >= 200 && response.StatusCode < 300:
		response.Header.Set("Content-Type", runtime.ContentTypeJSON)
	default:
		response.Header.Set("Content-Type", "text/plain")
	}
}

// requestingJSON returns the request, or a copy of it whose header Accept has none of refusedEncodings. Metadata
// clients accept protobuf, whatever their configuration.
func requestingJSON(request *http.Request) *http.Request {
	var kept []string
	refused := false
	for _, accepted := range strings.Split(strings.Join(request.Header.Values("Accept"), ","), ",") {
		if mediaType, _, _ := mime.ParseMediaType(accepted); refusedEncoding(mediaType) {
			refused = true
		} else {
			kept = append(kept, accepted)
		}
	}
	if !refused {
		return request
	}
	if len(kept) == 0 {
		kept = []string{runtime.ContentTypeJSON}
	}
	changed := *request
	changed.Header = request.Header.Clone()
	changed.Header.Set("Accept", strings.Join(kept, ","))
	return &changed
}

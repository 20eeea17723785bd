// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/nearest"
)

// writeParameters are the query parameters of requests that write: those of CreateOptions, UpdateOptions, PatchOptions,
// DeleteOptions and ListOptions in k8s.io/apimachinery/pkg/apis/meta/v1, and pretty and timeout, which every request
// may have.
var writeParameters = []string{
	"dryRun", "fieldManager", "fieldValidation", "force", "gracePeriodSeconds", "orphanDependents", "propagationPolicy",
	"ignoreStoreReadErrorWithClusterBreakingPotential", "labelSelector", "fieldSelector", "limit", "continue",
	"resourceVersion", "resourceVersionMatch", "timeoutSeconds", "watch", "allowWatchBookmarks", "sendInitialEvents",
	"pretty", "timeout",
}

// withKnownParameters returns a handler that responds with 400 to a request that writes and has a misspelt query
// parameter. Kubernetes ignores unknown parameters: a request with dryrun=All instead of dryRun=All would write. Other
// unknown parameters may belong to a newer version of Kubernetes.
func withKnownParameters(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && info.IsResourceRequest && writes(info.Verb) {
			for _, name := range slices.Sorted(maps.Keys(r.URL.Query())) {
				if slices.Contains(writeParameters, name) {
					continue
				}
				if known := nearest.Name(name, writeParameters); known != "" {
					err := apierrors.NewBadRequest(fmt.Sprintf("unknown query parameter %.64q; did you mean %s?", name, known))
					responsewriters.ErrorNegotiated(err, Codecs, v1alpha1.SchemeGroupVersion, w, r)
					return
				}
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// strictSubresources are the subresources whose requests users write by hand.
var strictSubresources = []string{"peer", "offload", "move", "invitation"}

// withStrictVerbs returns a handler that refuses unknown fields in requests of strictSubresources, unless the parameter
// fieldValidation selects something else. kubectl sets fieldValidation to Strict for objects in files, but does not set
// it for patches and with --raw. Requests of peers, which may have fields of a newer version, are not affected: they
// use no such subresource.
func withStrictVerbs(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if ok && slices.Contains(strictSubresources, info.Subresource) && info.Verb != "delete" && writes(info.Verb) {
			if query := r.URL.Query(); query.Get("fieldValidation") == "" {
				query.Set("fieldValidation", metav1.FieldValidationStrict)
				r = r.Clone(r.Context())
				r.URL.RawQuery = query.Encode()
			}
		}
		handler.ServeHTTP(w, r)
	})
}

func writes(verb string) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, verb)
}

// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// withNamespaceNames returns a handler that responds with 400 to requests in a namespace with an
// invalid name, for example "..". Otherwise the storage, which validates only the names of objects,
// would return an internal error.
func withNamespaceNames(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if ok && info.IsResourceRequest && info.Namespace != "" {
			if messages := validation.ValidateNamespaceName(info.Namespace, false); len(messages) > 0 {
				err := apierrors.NewBadRequest(fmt.Sprintf("namespace %.64q: %s", info.Namespace, strings.Join(messages, "; ")))
				responsewriters.ErrorNegotiated(err, Codecs, v1alpha1.SchemeGroupVersion, w, r)
				return
			}
		}
		handler.ServeHTTP(w, r)
	})
}

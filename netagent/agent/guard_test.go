// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/http"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestOnlyTokensForTheControlPlaneLetIntoIt(t *testing.T) {
	for name, test := range map[string]struct {
		audiences []string // of the token
		may       bool
		want      int
	}{
		"for the control plane":               {[]string{"liqo-control"}, true, http.StatusOK},
		"of somebody who may not":             {[]string{"liqo-control"}, false, http.StatusForbidden},
		"for the API server":                  {[]string{"https://kubernetes.default.svc"}, true, http.StatusUnauthorized},
		"where audiences are not heeded":      {nil, true, http.StatusUnauthorized},
		"for the control plane among others ": {[]string{"another", "liqo-control"}, true, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "kubelet"}}
				for _, audience := range review.Spec.Audiences {
					if slices.Contains(test.audiences, audience) {
						review.Status.Audiences = append(review.Status.Audiences, audience)
					}
				}
				return true, review, nil
			})
			kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
				asked := review.Spec.NonResourceAttributes
				review.Status.Allowed = test.may && review.Spec.User == "kubelet" && asked.Path == "/liqo/control" && asked.Verb == "get"
				return true, review, nil
			})
			if got, err := ControlGuard(kube)(t.Context(), "token"); err != nil || got != test.want {
				t.Errorf("%d, %v; want %d", got, err, test.want)
			}
		})
	}
}

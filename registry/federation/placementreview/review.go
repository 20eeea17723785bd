// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placementreview serves the admission webhook that places pods with claims in
// offloaded namespaces, as a resource that is not stored. kube-apiserver calls it through
// the aggregator with its own credentials, as it calls any resource of the group.
package placementreview

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/placement"
)

// timeout bounds a review. It is below the timeoutSeconds of the webhook, so that the user gets
// the error of the failed read.
const timeout = 4 * time.Second

var pods = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}

// REST answers AdmissionReviews of pods that are created. It stores nothing and needs no
// store.
type REST struct {
	reader Reader
}

var (
	_ rest.Creater                  = &REST{}
	_ rest.Scoper                   = &REST{}
	_ rest.SingularNameProvider     = &REST{}
	_ rest.GroupVersionKindProvider = &REST{}
)

// New returns the resource. reader reads what a placement depends on.
func New(reader Reader) *REST { return &REST{reader: reader} }

// New returns an empty review.
func (r *REST) New() runtime.Object { return &admissionv1.AdmissionReview{} }

// Destroy does nothing: there is no store.
func (r *REST) Destroy() {}

// NamespaceScoped returns false: a webhook has one path for all namespaces.
func (r *REST) NamespaceScoped() bool { return false }

// GetSingularName returns the name of one review.
func (r *REST) GetSingularName() string { return "placementreview" }

// GroupVersionKind returns the kind that webhooks are called with, of another group than
// the resource.
func (r *REST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return admissionv1.SchemeGroupVersion.WithKind("AdmissionReview")
}

// Create returns the review with its response and without its request. It fails if the
// review is malformed or if something that the placement depends on cannot be read: the
// webhook then refuses the pod.
func (r *REST) Create(
	ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, _ *metav1.CreateOptions,
) (runtime.Object, error) {
	review, ok := obj.(*admissionv1.AdmissionReview)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected an AdmissionReview, got a %T", obj))
	}
	if createValidation != nil {
		if err := createValidation(ctx, review.DeepCopy()); err != nil {
			return nil, err
		}
	}
	started := time.Now()
	response, outcome, err := r.respond(ctx, review.Request)
	observe(outcome, time.Since(started))
	if err != nil {
		return nil, err
	}
	return &admissionv1.AdmissionReview{Response: response}, nil
}

func (r *REST) respond(
	ctx context.Context, request *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, outcome, error) {
	pod, err := podOf(request)
	if err != nil {
		return nil, failed, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	input, err := r.reader.read(ctx, request, pod)
	if err != nil {
		return nil, failed, err
	}
	decision := placement.Decide(input)
	response := &admissionv1.AdmissionResponse{
		UID: request.UID, Allowed: decision.Denied == "", Warnings: decision.Warnings,
	}
	if !response.Allowed {
		response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: decision.Denied,
		}
		return response, denied, nil
	}
	patch := decision.Patch(pod)
	if len(patch) == 0 {
		return response, unchanged, nil
	}
	if response.Patch, err = json.Marshal(patch); err != nil {
		return nil, failed, apierrors.NewInternalError(fmt.Errorf("encoding the patch of the pod: %w", err))
	}
	response.PatchType = ptr.To(admissionv1.PatchTypeJSONPatch)
	if decision.Gated {
		return response, gated, nil
	}
	return response, placed, nil
}

// podOf returns the pod that a request creates. It fails with BadRequest if the request is
// malformed or not for the creation of a pod.
func podOf(request *admissionv1.AdmissionRequest) (*corev1.Pod, error) {
	switch {
	case request == nil:
		return nil, apierrors.NewBadRequest("the AdmissionReview has no request")
	case request.Resource != pods || request.SubResource != "" || request.Operation != admissionv1.Create:
		return nil, apierrors.NewBadRequest("only the creation of pods is reviewed: " +
			"restore the MutatingWebhookConfiguration federation-placement-claims of the chart")
	case request.Namespace == "":
		return nil, apierrors.NewBadRequest("the request has no namespace")
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		// The error of the decoder may repeat values of the pod.
		return nil, apierrors.NewBadRequest("the request has no valid pod")
	}
	return pod, nil
}

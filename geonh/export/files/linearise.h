/* Derivatives of the step from a state, which stays: of the change of (point, velocity) in the frame of the body, of
   2 ROBOT_VELOCITY numbers, by that before the step, by the inputs, and by the parameters with the velocity held. Three
   matrices one after another, each row by row:
   2 ROBOT_VELOCITY * (2 ROBOT_VELOCITY + ROBOT_INPUTS + ROBOT_PARAMETERS) numbers. */
int robot_linearise(const double *parameters, const double *inputs, const double *state, double *matrices);

